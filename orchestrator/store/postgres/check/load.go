package check

import (
	"fmt"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// Load returns the checks of the activity on a server: whether something makes it slow, or keeps others waiting.
// most is the number of connections that a process uses.
func Load(most int) []Check {
	return []Check{
		{"connections", func(c *store.Conn, report store.Report) error { return checkConnections(c, most, report) }},
		{"snapshots", checkSnapshots}, {"writing", checkWriting}, {"lock waits", checkWaits},
		{"row locks", checkRowLocks}, {"events", checkEvents}, {"dead rows", checkDeadRows}, {"index", checkIndex},
	}
}

// session is an expression that describes a row a of pg_stat_activity for people.
const session = `'process ' || a.pid || coalesce(' (' || nullif(a.application_name, '') || ', user ' || a.usename || coalesce(', host ' || host(a.client_addr), '') || ')', '')`

// fewConnections is the number of free connections below which the check reports a note.
const fewConnections = 10

func checkConnections(c *store.Conn, most int, report store.Report) error {
	return c.Query(`SELECT current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint
		- count(*), current_setting('max_connections') FROM pg_stat_activity WHERE backend_type = 'client backend'`,
		func(row store.Row) error {
			if free := row.Int(0); free < fewConnections {
				report("connections", store.Note,
					fmt.Sprintf("only %d of %s are free, and a daemon uses up to %d", max(0, free), row.Text(1), most),
					"Raise max_connections, or connect to the server through a pooler")
				return nil
			}
			report("connections", store.Fine, fmt.Sprintf("%d of %s are free", row.Int(0), row.Text(1)), "")
			return nil
		})
}

// checkSnapshots names the transactions and replication slots that keep the server from removing dead rows.
func checkSnapshots(c *store.Conn, report store.Report) error {
	old, err := c.Texts(`
		SELECT who || ', for ' || since FROM (
		    SELECT ` + session +
		` AS who, date_trunc('second', clock_timestamp() - a.xact_start) AS since FROM pg_stat_activity a
		    WHERE a.pid <> pg_backend_pid() AND coalesce(a.backend_xmin, a.backend_xid) IS NOT NULL AND a.xact_start < clock_timestamp() - interval '5 minutes'
		    UNION ALL SELECT 'the prepared transaction ' || gid, date_trunc('second', clock_timestamp() - prepared) FROM pg_prepared_xacts
		    WHERE prepared < clock_timestamp() - interval '5 minutes') AS s ORDER BY since DESC LIMIT 3`)
	if err != nil {
		return err
	}
	slots, err := c.Texts(`SELECT slot_name FROM pg_replication_slots WHERE NOT active
		AND greatest(age(xmin), age(catalog_xmin)) > 100000 ORDER BY 1 LIMIT 3`)
	switch {
	case err != nil:
		return err
	case len(old)+len(slots) == 0:
		report("snapshots", store.Fine, "nothing prevents the server from removing dead rows", "")
	case len(old) == 0:
		report("snapshots", store.Note, "the server keeps dead rows for replication slots that no program reads: "+
			strings.Join(slots, ", "), "If no program will read a slot, run SELECT pg_drop_replication_slot(NAME)")
	default:
		report("snapshots", store.Note,
			"the server keeps dead rows, which slow down deliveries, because of an open transaction: "+
				strings.Join(old, "; "),
			"Wait until the transaction ends, or end its process with SELECT pg_terminate_backend(PID)")
	}
	return nil
}

// checkWriting names the transactions that have been writing for a long time.
func checkWriting(c *store.Conn, report store.Report) error {
	old, err := c.Texts(`SELECT ` + session +
		` || ', ' || a.state || ', for ' || date_trunc('second', clock_timestamp() - a.xact_start) FROM pg_stat_activity a
		WHERE a.backend_xid IS NOT NULL AND a.datname = current_database() AND a.xact_start < clock_timestamp() - interval '10 seconds' ORDER BY a.xact_start LIMIT 3`)
	if err != nil {
		return err
	}
	if len(old) == 0 {
		report("writing", store.Fine, "no transaction has been writing for more than 10 seconds", "")
		return nil
	}
	report("writing", store.Note, "a transaction has been writing for more than 10 seconds: "+strings.Join(old, "; "),
		"Wait until the transaction ends, or end its process with SELECT pg_terminate_backend(PID)")
	return nil
}

func checkWaits(c *store.Conn, report store.Report) error {
	waits, err := c.Texts(`SELECT ` + session +
		` || ' waits for process ' || (SELECT string_agg(b::text, ' and process ') FROM unnest(pg_blocking_pids(a.pid)) AS b) FROM pg_stat_activity a
		WHERE a.datname = current_database() AND a.pid IN (SELECT pid FROM pg_locks WHERE NOT granted AND waitstart < clock_timestamp() - interval '2 seconds') ORDER BY a.pid LIMIT 5`)
	if err != nil {
		return err
	}
	if len(waits) == 0 {
		report("lock waits", store.Fine, "no process has waited for a lock for more than 2 seconds", "")
		return nil
	}
	report("lock waits", store.Problem, "processes have been waiting for locks for more than 2 seconds: "+strings.Join(waits, "; "),
		"Wait until the processes that hold the locks end their transactions, or end these processes with SELECT pg_terminate_backend(PID)")
	return nil
}

// checkEvents names the transaction that delays events for their readers. Nobody can follow events on a standby.
func checkEvents(c *store.Conn, report store.Report) error {
	return c.Query(`SELECT `+session+
		` || ', open for ' || date_trunc('second', clock_timestamp() - a.xact_start) FROM settled() AS s JOIN pg_stat_activity a ON a.pid = s.holder
		WHERE s.events < s.last AND a.xact_start < clock_timestamp() - interval '5 seconds'
		UNION ALL SELECT '' WHERE NOT pg_is_in_recovery() ORDER BY 1 DESC LIMIT 1`, func(row store.Row) error {
		if who := row.Text(0); who != "" {
			report("events", store.Note, "events appear late because of the transaction of "+who,
				"Wait until the transaction ends, or end its process with SELECT pg_terminate_backend(PID)")
			return nil
		}
		report("events", store.Fine, "no transaction delays events", "")
		return nil
	})
}

// hot lists the tables whose rows change most often.
const hot = `('agent_message', 'agent_inbox', 'message_count', 'message_trace')`

func checkDeadRows(c *store.Conn, report store.Report) error {
	dead, err := c.Texts(`SELECT relname || ' (' || n_dead_tup || ' dead, ' || n_live_tup || ' live, ' || coalesce('last vacuumed at ' || date_trunc('second', greatest(last_vacuum, last_autovacuum)), 'never vacuumed') || ')'
		FROM pg_stat_user_tables WHERE schemaname = current_schema()
			AND relname IN ` + hot + ` AND n_dead_tup > 20000 AND n_dead_tup > 2 * n_live_tup ORDER BY n_dead_tup DESC`)
	if err != nil {
		return err
	}
	if len(dead) == 0 {
		report("dead rows", store.Fine, "the server removes dead rows", "")
		return nil
	}
	report("dead rows", store.Note, "tables have many dead rows: "+strings.Join(dead, "; "),
		"See the finding of the check `snapshots`. Make sure that autovacuum is on, and run VACUUM on the server")
	return nil
}

// checkIndex checks the index of waiting messages, which grows if dead rows are not removed.
func checkIndex(c *store.Conn, report store.Report) error {
	return c.Query(`SELECT pg_relation_size('agent_message_live'),
		coalesce((SELECT sum(n) FROM message_count WHERE state IN ('pending', 'retry') AND n > 0), 0)`,
		func(row store.Row) error {
			const smallest, bytesOfRow, times = 8 << 20, 64, 20
			if size := row.Int(0); size > smallest && size > times*bytesOfRow*row.Int(1) {
				report("index", store.Note,
					fmt.Sprintf("the index of waiting messages takes up %d MB for %s", size>>20,
						orchestrator.Plural(int(row.Int(1)), "message")),
					"On the server, run REINDEX INDEX CONCURRENTLY agent_message_live")
				return nil
			}
			report("index", store.Fine, "the index of waiting messages has a normal size", "")
			return nil
		})
}

// LockedBy names the sessions of other programs that may have locked rows of messages, or their table. Somebody may
// do so by hand, for example with SELECT ... FOR UPDATE in a transaction that stays open.
func LockedBy(c *store.Conn) ([]string, error) {
	return c.Texts(`
		SELECT ` + session +
		` || coalesce(' since ' || to_char(a.xact_start, 'HH24:MI:SS') || ' UTC', '') FROM pg_stat_activity a
		WHERE a.datname = current_database() AND a.application_name <> current_setting('application_name') AND coalesce(a.xact_start < clock_timestamp() - interval '2 seconds', true)
		  AND a.pid IN (SELECT pid FROM pg_locks WHERE granted AND relation IN ('agent_message'::regclass, 'agent_inbox'::regclass, 'message_count'::regclass)
		                AND mode NOT IN ('AccessShareLock', 'ShareUpdateExclusiveLock'))
		ORDER BY a.xact_start LIMIT 3`)
}

func checkRowLocks(c *store.Conn, report store.Report) error {
	who, err := LockedBy(c)
	if err != nil {
		return err
	}
	if len(who) == 0 {
		report("row locks", store.Fine, "no other program has locked rows of messages", "")
		return nil
	}
	report("row locks", store.Problem, "rows of messages may be locked by "+strings.Join(who, "; ")+
		". A process that needs a locked row has to wait, and every later process then waits for that process",
		"Wait until the transaction that has the lock ends, or end its process with SELECT pg_terminate_backend(PID)")
	return nil
}

// Writing names the sessions that hold advisory locks, one of which keeps others from writing.
func Writing(c *store.Conn) ([]string, error) {
	return c.Texts(`SELECT ` + session +
		` FROM pg_stat_activity a WHERE xact_start IS NOT NULL AND pid <> pg_backend_pid()
			AND pid IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted) ORDER BY xact_start LIMIT 3`)
}
