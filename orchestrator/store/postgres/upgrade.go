package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// upgrades lead to the version of the tables that a program knows.
type upgrades struct {
	// steps are the scripts that lead from each version to the next, beginning with version 1. A change of schema.sql
	// that databases on servers must follow comes with one, which stays as it is once it is released.
	steps []string
	// oldest is the oldest version whose programs may go on using tables of the last one, and write into them: a step
	// that only adds what they can do without leaves it as it is, any other raises it to the version that it makes.
	oldest int
}

// present are those of this program.
var present = upgrades{oldest: 4, steps: []string{
	// 2: whoever writes messages by hand needs no right to set their sequence.
	`ALTER FUNCTION agent_message_numbered() SECURITY DEFINER;
	DO $$ BEGIN EXECUTE format('ALTER FUNCTION agent_message_numbered() SET search_path = %I, pg_temp', current_schema()); END $$;
	REVOKE ALL ON FUNCTION agent_message_numbered() FROM PUBLIC`,
	// 3: when a chain of messages began, what a session was shown last, and when its user last said anything.
	`ALTER TABLE agent_message ADD COLUMN chain_at text COLLATE "C" NOT NULL DEFAULT '';
	ALTER TABLE host_sessions ADD COLUMN shown_id text COLLATE "C" NOT NULL DEFAULT '',
	    ADD COLUMN shown_at text COLLATE "C" NOT NULL DEFAULT '', ADD COLUMN prompted_at text COLLATE "C" NOT NULL DEFAULT ''`,
	// 4: what the commands of an agent get of the environment is a column, and nobody but an agent or a group has a
	// name of theirs.
	`ALTER TABLE agents ADD COLUMN pass_env text COLLATE "C" NOT NULL DEFAULT '';
	UPDATE agents SET pass_env = coalesce((SELECT value FROM settings WHERE key = 'pass_env.' || agents.name), '');
	DELETE FROM settings WHERE key LIKE 'pass_env.%';
	ALTER TABLE agents ADD CONSTRAINT agents_name CHECK (` + isName("name") + `);
	ALTER TABLE groups ADD CONSTRAINT groups_name CHECK (` + isName("name") + `);
	ALTER TABLE group_members ADD CONSTRAINT group_members_agent CHECK (` + isName("agent") + `)`,
	// 5: nothing looks at traced_status any more when a message changes, for the sake of deliveries.
	`DROP TRIGGER IF EXISTS agent_message_disowned ON agent_message`,
	// 6: what a message may cost a session of an agent host, as its sender and its recipient want it, and what messages
	// put into contexts.
	`ALTER TABLE agent_message ADD COLUMN held_from text COLLATE "C" NOT NULL DEFAULT '', ADD COLUMN wake text COLLATE "C";
	ALTER TABLE agent_message_archive ADD COLUMN wake text COLLATE "C";
	ALTER TABLE agents ADD COLUMN wake text COLLATE "C" NOT NULL DEFAULT '';
	ALTER TABLE agent_inbox ADD COLUMN told_in text COLLATE "C" NOT NULL DEFAULT '';
	CREATE TABLE context_use (at text COLLATE "C", agent text COLLATE "C", sender text COLLATE "C",
	    message_type text COLLATE "C", way text COLLATE "C", messages bigint NOT NULL, bytes bigint NOT NULL,
	    PRIMARY KEY (at, agent, sender, message_type, way))`,
}}

// isName is the condition under which a column holds a name that an agent or a group can have.
func isName(column string) string {
	return strings.ReplaceAll(`length(name) BETWEEN 1 AND 57 AND ltrim(name, 'abcdefghijklmnopqrstuvwxyz0123456789_-') = ''
	    AND ltrim(substr(name, 1, 1), 'abcdefghijklmnopqrstuvwxyz') = ''
	    AND name NOT IN ('agent','auto','all','user','operator','system')`, "name", column)
}

// version is that of schema.sql, and the one to which the last step leads.
func (u upgrades) version() int { return 1 + len(u.steps) }

// versionKey is the row of settings with the version of the tables.
const versionKey = "schema.version"

// errBehind is the cause of an error about tables that are to be brought to the version of this program first.
var errBehind = errors.New("upgrade pending")

// readVersions asks what a database says of itself, for admit.
const readVersions = `SELECT key, value FROM settings WHERE key IN ('` + versionKey + `', '` + store.SchemaOldest +
	`', '` + store.DatabaseID + `')`

// admit refuses tables that a newer program has made unfit for one that knows a version, and those that are older.
func admit(said map[string]string, knows int) error {
	version, err := strconv.Atoi(said[versionKey])
	switch {
	case err != nil, version < 1:
		return orchestrator.Errorf(orchestrator.Unavailable, "the settings table of the database has no row %s",
			versionKey).WithHint("Mailroom did not create the tables in this database, or somebody changed them. Use another database")
	case version < knows:
		return &orchestrator.Error{Code: orchestrator.Unavailable, Err: errBehind,
			Message: fmt.Sprintf("the database has version %d of the tables, but this program needs version %d", version, knows),
			Hint:    "Try again"}
	}
	return store.Outgrown(version, knows, said[store.SchemaOldest])
}

// Admit refuses tables that a newer program has made unfit for this one.
func (c *conn) Admit() error { return admitBy(c, c.knows) }

func admitBy(d store.Driver, knows int) error {
	said := map[string]string{}
	err := (&store.Conn{Driver: d}).Query(readVersions, func(row store.Row) error {
		said[row.Text(0)] = row.Text(1)
		return nil
	})
	if err != nil {
		return err
	}
	return admit(said, knows)
}

// CheckConfigured: see store.Driver.
func (*conn) CheckConfigured() error { return nil }

// upgrade brings the tables to the version that this program knows, in one transaction. Several processes may do so at
// the same time: the first to get the locks does the work, the others find it done. Nobody writes meanwhile, and older
// programs that have the database open find out with their next transaction, see store.Outgrown.
func (s *Store) upgrade(ctx context.Context) error {
	raw, _, err := s.reach(ctx, s.direct)
	if err != nil {
		return err
	}
	defer raw.Close() // which undoes what is not committed
	err = raw.Do(ctx, fmt.Sprintf("BEGIN; SET LOCAL lock_timeout = %d; SELECT %s; SELECT %s", s.busy.Milliseconds(),
		s.lock(making), s.lock(writing)))
	if err != nil {
		return err
	}
	c := &store.Conn{Driver: raw}
	version, err := c.Number(`SELECT value::bigint FROM settings WHERE key = ?1`, versionKey)
	if err != nil || int(version) >= s.version() {
		return err
	}
	s.log.Info("upgrading the tables of the database to the version of this program", "database", s.path, "from",
		version, "to", s.version())
	if err := letIn(raw); err != nil { // a step may change rows of a database that has moved
		return err
	}
	for ; int(version) < s.version(); version++ {
		if err := c.Script(s.steps[version-1]); err != nil {
			return fmt.Errorf("cannot upgrade the tables to version %d: %w", version+1, err)
		}
	}
	for key, value := range map[string]string{
		versionKey: strconv.Itoa(s.version()), store.SchemaOldest: fmt.Sprintf("%d: %d", s.version(), s.oldest),
		store.ConfigVersion: rand.Text(),
	} {
		if err := c.Run(store.StoreSetting, key, value, orchestrator.Stamp(time.Now())); err != nil {
			return err
		}
	}
	if err := raw.Shut(); err != nil {
		return err
	}
	return c.Script(grants + "; COMMIT")
}
