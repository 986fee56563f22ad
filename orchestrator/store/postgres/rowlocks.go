package postgres

import (
	"strings"

	"mailroom/orchestrator/store"
)

// LockedBy names the sessions that may have locked rows of messages, or their table, and are none of ours: somebody may do
// so by hand, as with SELECT ... FOR UPDATE in a transaction that stays open.
func (s *Store) LockedBy(c *store.Conn) ([]string, error) {
	return c.Texts(`
		SELECT ` + session + ` || coalesce(' since ' || to_char(a.xact_start, 'HH24:MI:SS') || ' UTC', '') FROM pg_stat_activity a
		WHERE a.datname = current_database() AND a.application_name <> current_setting('application_name') AND coalesce(a.xact_start < clock_timestamp() - interval '2 seconds', true)
		  AND a.pid IN (SELECT pid FROM pg_locks WHERE granted AND relation IN ('agent_message'::regclass, 'agent_inbox'::regclass, 'message_count'::regclass)
		                AND mode NOT IN ('AccessShareLock', 'ShareUpdateExclusiveLock'))
		ORDER BY a.xact_start LIMIT 3`)
}

func checkRowLocks(s *Store, c *store.Conn, report store.Report) error {
	who, err := s.LockedBy(c)
	if err != nil {
		return err
	}
	if len(who) == 0 {
		report("row locks", "ok", "nobody else has locked rows of messages", "")
		return nil
	}
	report("row locks", "problem", "rows of messages may be locked by "+strings.Join(who, "; ")+": whoever meets one waits, and so do all behind him",
		"Let it end its transaction, or end it: SELECT pg_terminate_backend(PID)")
	return nil
}
