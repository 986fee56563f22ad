package overview_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/retention"
	"mailroom/orchestrator/store"
)

// TestStatusCountsEveryRow checks that status reports the same counts for each recipient as a count of all rows,
// whatever happens to messages, by the engine or by hand. TestRecount covers changes that no trigger sees.
func TestStatusCountsEveryRow(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			r := rand.New(rand.NewPCG(seed, 4))
			f := enginetest.New(t, "a", "b", "c")
			f.ViewInboxes("b")
			f.AddWired("w")
			leave, enter := `DELETE FROM b_inbox WHERE message_id = ?`,
				`INSERT INTO b_inbox (message_id, payload) VALUES (?, '2')`
			if f.OnServer() {
				leave, enter = `DELETE FROM agent_inbox WHERE recipient = 'b' AND message_id = ?`,
					`UPDATE agent_inbox SET payload = '2' WHERE message_id = ?`
			}
			var ids []string
			some := func() string {
				if len(ids) == 0 {
					return "none"
				}
				return ids[r.IntN(len(ids))]
			}
			for i := range 150 {
				switch r.IntN(16) {
				case 0, 1, 2, 3, 4:
					ids = append(ids,
						f.Send("a", []string{"b", "c", "w"}[r.IntN(3)],
							func(d *orchestrator.Draft) { d.Priority = r.IntN(5) - 2 }))
				case 5, 6:
					f.Deliver()
				case 7:
					f.TakeFor([]string{"b", "c"}[r.IntN(2)], 0)
				case 8:
					f.Wire.Set([]func(context.Context, orchestrator.Attempt) []error{nil,
						enginetest.Failing("down")}[r.IntN(2)])
				case 9:
					messages.Cancel(t.Context(), f.Ledger, some(), "a")
				case 10:
					messages.Replay(t.Context(), f.Ledger, some(), "")
				case 11:
					f.Clear(retention.ClearOptions{OlderThan: time.Hour})
				case 12:
					f.Clock.Advance(time.Duration(r.Int64N(int64(time.Hour))))
				case 13:
					f.SQL(`INSERT INTO agent_message (message_id, sender, recipient, payload, status)
						VALUES (?, 'a', ?, '1', ?)`,
						fmt.Sprint("hand-", i), []string{"b", "nobody"}[r.IntN(2)],
						[]any{"pending", "retry", "failed", nil}[r.IntN(4)])
				case 14:
					f.SQL([]string{
						`DELETE FROM agent_message WHERE message_id = ?`,
						`UPDATE agent_message SET status = 'pending' WHERE message_id = ?`,
						`UPDATE agent_message SET status = 'cancelled' WHERE message_id = ?`,
						`DELETE FROM agent_inbox WHERE message_id = ?`,
						leave, enter,
						`UPDATE agent_inbox SET read_at = '' WHERE message_id = ?`,
						`UPDATE agent_message SET recipient = 'c' WHERE message_id = ?`,
						`UPDATE agent_message SET priority = -9223372036854775807 - 1 WHERE message_id = ?`,
						`UPDATE agent_message SET priority = 9223372036854775807 WHERE message_id = ?`,
						`UPDATE agent_message SET seq = (SELECT max(seq) + 3 FROM agent_message) WHERE message_id = ?`,
					}[r.IntN(11)], some())
				case 15:
					f.TakeFor("c", time.Minute)
				}
				compareStatus(t, f)
			}
		})
	}
}

// compareStatus compares Status with a count of all rows.
func compareStatus(t *testing.T, f *enginetest.Fixture) {
	t.Helper()
	state, err := overview.Status(t.Context(), f.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, b := range state.Recipients {
		if b.Pending+b.Retry+b.Unread > 0 {
			got = append(got, fmt.Sprint(b.Recipient, " ", b.Pending, " ", b.Retry, " ", b.Unread, " ", b.OldestAt))
		}
	}
	want.Rows(t, got, f.Rows(`
		SELECT recipient, sum(pending), sum(retry), sum(unread), coalesce(min(at), '') FROM (
		    SELECT recipient, CASE coalesce(status, 'pending') WHEN 'pending' THEN 1 ELSE 0 END AS pending,
		    	CASE status WHEN 'retry' THEN 1 ELSE 0 END AS retry, 0 AS unread,
		           strftime('%Y-%m-%dT%H:%M:%fZ', coalesce(created_at, ?)) AS at
		    FROM agent_message WHERE coalesce(status, 'pending') IN ('pending','retry')
		    UNION ALL SELECT recipient, 0, 0, 1, NULL FROM agent_inbox WHERE read_at = ''
		    UNION ALL SELECT l.recipient, 0, 0, 1, NULL FROM reading_lease l
		    	JOIN agent_inbox i USING (message_id, recipient)
		              LEFT JOIN agent_message m USING (message_id, recipient) WHERE i.read_at <> ''
		              	AND coalesce(m.read_at, '') = '') AS each
		GROUP BY recipient ORDER BY recipient`, f.Stamp())...)
	for status, n := range state.Totals {
		query := `SELECT count(*) FROM agent_message WHERE coalesce(status, 'pending') = ?`
		if status == string(ledger.Archived) {
			query = `SELECT count(*) FROM agent_message_archive WHERE ? <> ''`
		}
		if rows := f.Rows(query, status); rows[0] != strconv.FormatInt(n, 10) {
			t.Errorf("%s: got %d; want %s", status, n, strings.Join(rows, ""))
		}
	}
	if t.Failed() {
		t.FailNow()
	}
}

// Changes by hand that no trigger sees are found, and corrected by a recount.
func TestRecount(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b", "c")
	ids := sendSome(f, 4)
	if err := f.Write(t.Context(), store.Alone, ledger.Recount); err != nil { // so that all of them are counted
		t.Fatal(err)
	}
	if f.OnServer() { // which runs its triggers
		f.SQL(`INSERT INTO message_count (recipient, state, n) VALUES ('b', 'pending', 1)
			ON CONFLICT (recipient, state) DO UPDATE SET n = message_count.n + 1`)
	} else {
		f.SQL(`INSERT OR REPLACE INTO agent_message (message_id, sender, recipient, payload) VALUES (?, 'a', 'c', '1')`,
			ids[0])
	}
	f.SQL(`UPDATE agent_message SET recipient = 'c' WHERE message_id = ?`, ids[1])
	f.SQL(`UPDATE agent_message SET traced_status = 'counted' WHERE message_id = ?`, ids[2])
	f.SQL(`INSERT INTO agent_inbox (recipient, message_id, payload) VALUES ('c', 'new', '1')`)
	wrong, err := ledger.ReadValue(t.Context(), f.Ledger, ledger.Miscounted)
	want.Lines(t, wrong, `pending of "b": +2`, `unread of "c": -1`)
	if err != nil {
		t.Error(err)
	}
	if err := f.Write(t.Context(), store.Alone, ledger.Recount); err != nil {
		t.Fatal(err)
	}
	compareStatus(t, f)
}

func sendSome(f *enginetest.Fixture, n int) (ids []string) {
	for range n {
		ids = append(ids, f.Send("a", "b"))
	}
	return ids
}

// Statuses written by hand are not mistaken for the names of other counts.
func TestOddStatuses(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	sendSome(f, 7)
	for i, status := range []string{"unread", "archived", "counted", "odd", "12"} {
		f.SQL(`UPDATE agent_message SET status = ?1, traced_status = ?1 WHERE seq = ?2`, status, i+1)
	}
	if err := f.Write(t.Context(), store.Alone, ledger.Recount); err != nil {
		t.Fatal(err)
	}
	want.Rows(t, f.Rows(`SELECT recipient, state, n FROM message_count ORDER BY state, recipient`), " archived 0",
		" counted 7", "b pending 2")
	f.SQL(`DELETE FROM agent_message WHERE seq <= 5`)
	want.Rows(t, f.Rows(`SELECT recipient, state, n FROM message_count ORDER BY state, recipient`), " archived 0",
		" counted 7", "b pending 2")
}

// Rows that another program wrote are counted as they are adopted, so that neither status nor the next send becomes
// slow with a million of them.
func TestManyByHand(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	f.SQL(`WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2500)
		INSERT INTO agent_message (message_id, sender, recipient, payload) SELECT 'hand-' || i, 'a', 'b', '1' FROM n`)
	f.Deliver()
	want.Rows(t, f.Rows(`SELECT n FROM message_count WHERE state = 'counted'`), "2500")
	compareStatus(t, f)
}
