package postgres

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// checkPatience bounds all questions to the server.
const checkPatience = 30 * time.Second

// A check asks the server one thing.
type check struct {
	name string
	ask  func(s *Store, c *store.Conn, report store.Report) error
}

// checks are asked each by itself, outside of a transaction: one that fails, for lack of a right, ends no other.
var checks = []check{
	{"server", checkServer}, {"settings", checkSettings}, {"pooler", checkPooler}, {"acknowledged", checkAcknowledged},
	{"audit user", checkAuditor},
	{"connections", checkConnections}, {"snapshots", checkSnapshots}, {"writing", checkWriting},
	{"lock waits", checkWaits}, {"row locks", checkRowLocks}, {"events", checkEvents},
	{"dead rows", checkDeadRows}, {"index", checkIndex},
}

// CheckPlace looks at the server.
func (s *Store) CheckPlace(report store.Report) {
	ctx, cancel := context.WithTimeout(context.Background(), checkPatience)
	defer cancel()
	for _, one := range checks {
		err := s.Look(ctx, func(c *store.Conn) error { return one.ask(s, c, report) })
		var own *orchestrator.Error
		switch {
		case err == nil:
		case errors.Is(err, errNone):
			report("server", "note", "there is no database at "+s.path+" yet", "`mailroom init` makes one")
			return
		case errors.As(err, &own) && !s.found.Load():
			report("server", "problem", own.Message, own.Hint)
			return
		default:
			report(one.name, "note", "not known: "+err.Error(), "")
		}
	}
}

func checkServer(_ *Store, c *store.Conn, report store.Report) error {
	return c.Query(`SELECT current_setting('server_version'), current_setting('server_version_num')::bigint,
		pg_is_in_recovery(), current_user,
		current_setting('transaction_read_only'), current_setting('server_encoding')`, func(row store.Row) error {
		if row.Text(5) != encoding {
			report("server", "problem", "the database has the encoding "+row.Text(5)+
				": a message with a character that this lacks is refused",
				"Make one with CREATE DATABASE name ENCODING 'UTF8' LOCALE 'C' TEMPLATE template0, and move there: `mailroom migrate`")
		}
		says := "PostgreSQL " + row.Text(0) + ", as the user " + row.Text(3)
		switch {
		case row.Int(1) < oldestServer:
			report("server", "problem", says+": mailroom is for 14 and later", "Upgrade the server")
		case row.Int(2) != 0:
			report("server", "note", says+": a standby, which can only be read", nameAll)
		case row.Text(4) == "on":
			report("server", "problem", says+": it takes no writes, since default_transaction_read_only is on",
				"Set it to off for this user")
		default:
			report("server", "ok", says, "")
		}
		return nil
	})
}

// durable are the settings of the server without which it can lose what it has committed.
var durable = []string{"fsync", "full_page_writes"}

// checkSettings compares what a connection has with what it should have.
func checkSettings(_ *Store, c *store.Conn, report store.Report) error {
	var off, other []string
	for _, name := range durable {
		value, _, err := c.Text(`SELECT current_setting(?1)`, name)
		if err != nil {
			return err
		}
		if value != "on" {
			off = append(off, name+" is "+value)
		}
	}
	if off != nil {
		report("settings", "problem",
			strings.Join(off, ", ")+": what the server has committed does not survive a power cut",
			"Turn it on in postgresql.conf")
	}
	for _, name := range settingNames {
		value, _, err := c.Text(`SELECT current_setting(?1)`, name)
		if err != nil {
			return err
		}
		if !sameSetting(value, settings[name]) {
			other = append(other, name+" is "+value+" and should be "+settings[name])
		}
	}
	switch {
	case other != nil:
		report("settings", "problem", "what connects mailroom and the server changes its settings: "+
			strings.Join(other, ", "),
			"`mailroom init` sets them for this user in this database; a pool of connections must then connect anew")
	case off == nil:
		report("settings", "ok", "the connections have those that mailroom needs", "")
	}
	return nil
}

// sameSetting compares the values of a setting, which the server writes with another unit of time.
func sameSetting(value, wanted string) bool {
	a, errA := time.ParseDuration(strings.Replace(value, "min", "m", 1))
	b, errB := time.ParseDuration(wanted)
	return strings.EqualFold(value, wanted) || errA == nil && errB == nil && a == b
}

// counted matches how many standbys synchronous_standby_names waits for; without a number it is one.
var counted = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)^\s*(?:FIRST|ANY)?\s*(\d+)\s*\(`) })

// checkAcknowledged says what an answered send means on this server.
func checkAcknowledged(_ *Store, c *store.Conn, report store.Report) error {
	var commit, names string
	var synchronous, all, hidden, standby int64
	err := c.Query(`SELECT current_setting('synchronous_commit'), current_setting('synchronous_standby_names'),
		count(*) FILTER (WHERE sync_state IN ('sync', 'quorum')),
		count(pid), count(pid) FILTER (WHERE sync_state IS NULL), pg_is_in_recovery() FROM (SELECT 1) AS one
			LEFT JOIN pg_stat_replication ON true`, func(row store.Row) error {
		commit, names, synchronous, all, hidden, standby = row.Text(0), row.Text(1), row.Int(2), row.Int(3), row.Int(4),
			row.Int(5)
		return nil
	})
	if err != nil || standby != 0 { // which answers no send
		return err
	}
	wanted := int64(1)
	if found := counted().FindStringSubmatch(names); found != nil {
		wanted, _ = strconv.ParseInt(found[1], 10, 64)
	}
	others := ""
	if all > synchronous {
		others = "; on " + orchestrator.Plural(int(all-synchronous), "other standby") +
			" later, and not if this node is lost before"
	}
	switch {
	case commit == "off":
		report("acknowledged", "problem",
			"an answered send is on no disk yet (synchronous_commit is off): a crash of the server loses the last ones",
			"`mailroom init` sets it to on for its user, unless that is a superuser; or set it in postgresql.conf")
	case names == "" || commit == "local":
		report("acknowledged", "ok", "an answered send is on the disk of 1 node"+others, "")
	case hidden > 0:
		report("acknowledged", "note",
			"an answered send is on this node, and on those that synchronous_standby_names asks for: "+names,
			"This user may not see which are connected: GRANT pg_read_all_stats TO it")
	case synchronous < wanted:
		report("acknowledged", "problem",
			fmt.Sprintf("the server waits for standbys (%s), and too few are connected: sends are not answered", names),
			"Start them, or change synchronous_standby_names")
	default:
		report("acknowledged", "ok", fmt.Sprintf("an answered send is on the disks of %d nodes%s", wanted+1, others),
			"")
	}
	return nil
}

// checkAuditor looks whether queries can be run, and can do nothing but read.
func checkAuditor(s *Store, c *store.Conn, report store.Report) error {
	return c.Query(`
		SELECT r.rolcanlogin AND has_schema_privilege(r.oid, current_schema(), 'USAGE')
			AND has_table_privilege(r.oid, 'agent_message', 'SELECT'),
		       r.rolsuper OR r.rolcreaterole OR pg_has_role(r.oid, current_user, 'MEMBER')
		       	OR has_table_privilege(r.oid, 'agent_message', 'INSERT, UPDATE, DELETE'),
		       (SELECT string_agg(t, ', ' ORDER BY t) FROM unnest(?1::text[]) AS t
		       	WHERE has_table_privilege(r.oid, t, 'SELECT')), r.rolname, r.rolconnlimit
		FROM (SELECT 1) AS one LEFT JOIN pg_roles r ON r.rolname = '`+auditRole+`'`, func(row store.Row) error {
		secrets := row.Text(2)
		switch {
		case row.Text(3) == "":
			report("audit user", "note", "there is no user "+auditRole+": `mailroom sql` is refused",
				"Run there: "+makeAuditor+"; then `mailroom init`")
		case row.Int(1) != 0:
			report("audit user", "problem",
				"the user "+auditRole+" can do more than read, and so can every query of `mailroom sql`",
				"Take its rights and memberships away")
		case secrets != "":
			report("audit user", "problem", "the user "+auditRole+" can read credentials: "+secrets,
				"`mailroom init` takes that away, unless all users may: REVOKE SELECT ON them FROM PUBLIC")
		case row.Int(0) == 0:
			report("audit user", "note", "the user "+auditRole+" cannot read the tables: `mailroom sql` is refused",
				"`mailroom init` lets it, once it may LOGIN")
		default:
			c, err := enterAsAuditor(s, context.Background(), 0)
			if err != nil {
				report("audit user", "note", "the user "+auditRole+" cannot enter: `mailroom sql` is refused: "+
					err.Error(), "Put its password into ~/.pgpass; pg_hba.conf of the server says who may enter")
				return nil
			}
			c.Close()
			report("audit user", "ok", "queries are run as "+auditRole+", which reads no credentials", "")
			if row.Int(4) < 0 {
				report("audit connections", "note",
					"the user "+auditRole+" may take all connections of the server, one for each query",
					"Run there: ALTER ROLE "+auditRole+" CONNECTION LIMIT 20")
			}
		}
		return nil
	}, "{"+strings.ReplaceAll(credentials, " ", "")+"}")
}

// CheckLock reports whether a transaction keeps all others from writing.
func (s *Store) CheckLock(ctx context.Context, report store.Report) (locked bool) {
	if !store.IsLocked(ctx, s.Write, report) {
		return false
	}
	says := "nobody could write the database for " + orchestrator.FormatDuration(store.LockPatience)
	_ = s.Look(ctx, func(c *store.Conn) error {
		who, err := c.Texts(`SELECT ` + session +
			` FROM pg_stat_activity a WHERE xact_start IS NOT NULL AND pid <> pg_backend_pid()
			AND pid IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted) ORDER BY xact_start LIMIT 3`)
		if len(who) > 0 {
			says += ": its lock is held by one of " + strings.Join(who, ", ")
		}
		return err
	})
	report("lock", "problem", says,
		"Let it end its transaction, or end it: SELECT pg_terminate_backend(PID). What it has not committed is undone")
	return true
}
