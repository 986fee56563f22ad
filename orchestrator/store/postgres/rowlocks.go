package postgres

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"mailroom/orchestrator/store"
)

// Somebody may lock rows by hand, as with SELECT ... FOR UPDATE in a transaction that stays open. Whoever delivers must not wait for
// that: it leaves the recipient of such a row aside, all of it since order counts, and comes back later. As long as nobody has
// met such a row, nobody looks for any.
const (
	rowPatience = 2 * time.Second // how long a statement waits for a row: longer than it takes the server to find a deadlock
	looksFor    = time.Minute     // locked rows, since one was met
	mostLooked  = 10_000          // messages of one recipient that are looked at
)

// rowWait is rowPatience, in milliseconds.
var rowWait = strconv.AppendInt(nil, rowPatience.Milliseconds(), 10)

// meetsLock notes that a row, or a table, was waited for in vain. The transaction is run again as long as its requests are patient, without
// its locks in between, so that others can go on.
func (w *backend) meetsLock() (again bool) {
	w.looks = time.Now().Add(looksFor)
	return time.Now().Before(w.until)
}

// isFree reports whether the due messages of a recipient, and what is counted of it, can be changed.
func (w *backend) isFree(name string) (bool, error) {
	if time.Now().After(w.looks) {
		return true, nil
	}
	free, err := w.Number(`
		WITH due AS (SELECT seq FROM agent_message WHERE status IN ('pending','retry') AND recipient = ?1 ORDER BY priority DESC, seq LIMIT ?2),
		     free AS (SELECT 1 FROM agent_message m WHERE seq IN (SELECT seq FROM due) FOR NO KEY UPDATE OF m SKIP LOCKED),
		     counted AS (SELECT 1 FROM message_count WHERE recipient = ?1 FOR NO KEY UPDATE SKIP LOCKED)
		SELECT (SELECT count(*) FROM due) = (SELECT count(*) FROM free)
		   AND (SELECT count(*) FROM message_count WHERE recipient = ?1) = (SELECT count(*) FROM counted)`, name, mostLooked)
	if err == nil && free == 0 {
		w.meetsLock()
	}
	return free != 0, err
}

// Locked returns those of some messages whose rows somebody has locked.
func (w *backend) Locked(seqs []int64) ([]int64, error) {
	if len(seqs) == 0 || time.Now().After(w.looks) {
		return nil, nil
	}
	var list []string
	for _, seq := range seqs {
		list = append(list, strconv.FormatInt(seq, 10))
	}
	locked := slices.Clone(seqs)
	err := w.Query(`SELECT seq FROM agent_message WHERE seq = ANY(?1::bigint[]) FOR NO KEY UPDATE SKIP LOCKED`, func(row store.Row) error {
		locked = slices.DeleteFunc(locked, func(seq int64) bool { return seq == row.Int(0) })
		return nil
	}, "{"+strings.Join(list, ",")+"}")
	if len(locked) > 0 {
		w.meetsLock()
	}
	return locked, err
}

// LockedBy names the sessions that may have locked rows of messages, or their table, and are none of ours.
func (s *Store) LockedBy(c *store.Conn) ([]string, error) {
	return c.Texts(`
		SELECT `+session+` || coalesce(' since ' || to_char(a.xact_start, 'HH24:MI:SS') || ' UTC', '') FROM pg_stat_activity a
		WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND coalesce(a.xact_start < clock_timestamp() - interval '2 seconds', true)
		  AND a.pid IN (SELECT pid FROM pg_locks WHERE granted AND relation IN ('agent_message'::regclass, 'agent_inbox'::regclass, 'message_count'::regclass)
		                AND mode NOT IN ('AccessShareLock', 'ShareUpdateExclusiveLock'))
		  AND a.pid NOT IN (SELECT pid FROM pg_locks WHERE granted AND locktype = 'advisory' AND classid = ?1 AND objid::bigint = ?2)
		ORDER BY a.xact_start LIMIT 3`, int(writing), int64(uint32(s.lockNumber(""))))
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
	report("row locks", "problem", "rows of messages may be locked by "+strings.Join(who, "; ")+": deliveries that meet one are put off",
		"Let it end its transaction, or end it: SELECT pg_terminate_backend(PID)")
	return nil
}
