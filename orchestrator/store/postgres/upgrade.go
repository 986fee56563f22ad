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

// upgrades migrate the tables to the version of this program.
type upgrades struct {
	// steps are the scripts that lead from each version to the next, beginning with version 1. A change of
	// schema.sql that existing databases on servers need must come with a step. A released step is never changed.
	steps []string
	// oldest is the oldest version whose programs may continue to use and write tables of the last version. A step
	// that only adds what older programs do not need leaves oldest as it is. Any other step raises it to the version
	// that it creates.
	oldest int
}

// present are the upgrades of this program.
var present = upgrades{oldest: 4, steps: []string{
	// 2: programs that write messages by hand do not need the right to set the sequence.
	`ALTER FUNCTION agent_message_numbered() SECURITY DEFINER;
	DO $$ BEGIN EXECUTE format('ALTER FUNCTION agent_message_numbered() SET search_path = %I, pg_temp', current_schema()); END $$;
	REVOKE ALL ON FUNCTION agent_message_numbered() FROM PUBLIC`,
	// 3: when a chain of messages began, what a session was last shown, and when its user last entered a prompt.
	`ALTER TABLE agent_message ADD COLUMN chain_at text COLLATE "C" NOT NULL DEFAULT '';
	ALTER TABLE host_sessions ADD COLUMN shown_id text COLLATE "C" NOT NULL DEFAULT '',
	    ADD COLUMN shown_at text COLLATE "C" NOT NULL DEFAULT '', ADD COLUMN prompted_at text COLLATE "C" NOT NULL DEFAULT ''`,
	// 4: the environment variables that an agent's commands get are a column, and constraints limit the names of
	// agents and groups.
	`ALTER TABLE agents ADD COLUMN pass_env text COLLATE "C" NOT NULL DEFAULT '';
	UPDATE agents SET pass_env = coalesce((SELECT value FROM settings WHERE key = 'pass_env.' || agents.name), '');
	DELETE FROM settings WHERE key LIKE 'pass_env.%';
	ALTER TABLE agents ADD CONSTRAINT agents_name CHECK (` + isName("name") + `);
	ALTER TABLE groups ADD CONSTRAINT groups_name CHECK (` + isName("name") + `);
	ALTER TABLE group_members ADD CONSTRAINT group_members_agent CHECK (` + isName("agent") + `)`,
	// 5: no trigger checks traced_status any more when a message changes, which makes deliveries faster.
	`DROP TRIGGER IF EXISTS agent_message_disowned ON agent_message`,
	// 6: what a message may cost a session of an agent host, as its sender and its recipient choose, and how much
	// messages add to contexts.
	`ALTER TABLE agent_message ADD COLUMN held_from text COLLATE "C" NOT NULL DEFAULT '', ADD COLUMN wake text COLLATE "C";
	ALTER TABLE agent_message_archive ADD COLUMN wake text COLLATE "C";
	ALTER TABLE agents ADD COLUMN wake text COLLATE "C" NOT NULL DEFAULT '';
	ALTER TABLE agent_inbox ADD COLUMN told_in text COLLATE "C" NOT NULL DEFAULT '';
	CREATE TABLE context_use (at text COLLATE "C", agent text COLLATE "C", sender text COLLATE "C",
	    message_type text COLLATE "C", way text COLLATE "C", messages bigint NOT NULL, bytes bigint NOT NULL,
	    PRIMARY KEY (at, agent, sender, message_type, way))`,
}}

// isName returns the condition for a column that holds the name of an agent or a group.
func isName(column string) string {
	return strings.ReplaceAll(`length(name) BETWEEN 1 AND 57 AND ltrim(name, 'abcdefghijklmnopqrstuvwxyz0123456789_-') = ''
	    AND ltrim(substr(name, 1, 1), 'abcdefghijklmnopqrstuvwxyz') = ''
	    AND name NOT IN ('agent','auto','all','user','operator','system')`, "name", column)
}

// version returns the version of schema.sql, to which the last step leads.
func (u upgrades) version() int { return 1 + len(u.steps) }

// versionKey is the key of the row of settings with the version of the tables.
const versionKey = "schema.version"

// errBehind is the cause of an error about tables that must first be upgraded to the version of this program.
var errBehind = errors.New("upgrade pending")

// readVersions reads the settings that admit needs, and the id of the database.
const readVersions = `SELECT key, value FROM settings WHERE key IN ('` + versionKey + `', '` + store.SchemaOldest +
	`', '` + store.DatabaseID + `')`

// admit refuses tables that a newer program has made unusable for version knows, and tables of an older version.
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

// Admit refuses tables that a newer program has made unusable for this one.
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

// CheckConfigured implements store.Driver. It checks nothing.
func (*conn) CheckConfigured() error { return nil }

// upgrade migrates the tables to the version of this program in one transaction. Several processes may call it at
// the same time: the first that gets the locks does the work, and the others find it done. Nobody else writes
// meanwhile. Older programs that have the database open find out with their next transaction, see store.Outgrown.
func (s *Store) upgrade(ctx context.Context) error {
	raw, _, err := s.reach(ctx, s.direct)
	if err != nil {
		return err
	}
	defer raw.Close() // rolls back what is not committed
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
