package reading_test

import (
	"slices"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/retention"
)

// TestInboxViewIsConsumable checks that the view of an inbox serves a program that knows only SQL: the view shows the
// unread messages, and a DELETE marks a message as read, everywhere and at once, with an event in the trace.
func TestInboxViewIsConsumable(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	f.ViewInboxes("b", "c")
	first, second := f.Send("a", "b", func(d *orchestrator.Draft) { d.TTL = time.Hour }), f.Send("a", "b")
	other := f.Send("a", "c")
	f.Deliver()
	want.Rows(t, f.Rows(`SELECT message_id FROM b_inbox ORDER BY message_id`), first, second)

	f.SQL(`DELETE FROM b_inbox WHERE message_id = ?`, first)
	want.Rows(t, f.Rows(`SELECT message_id FROM b_inbox`), second)
	want.Rows(t, f.Rows(`SELECT message_id FROM c_inbox`), other)
	want.Rows(t, f.Rows(`SELECT count(*) FROM agent_inbox WHERE message_id = ?
		AND read_at LIKE '20__-__-__T__:__:__.___Z'`, first), "1")
	read := f.Message(first)
	if len(read.ReadAt) != len("2026-01-02T03:04:05.000Z") {
		t.Errorf("read_at is %q", read.ReadAt)
	}
	want.Rows(t, f.Rows(`SELECT event, old_status, new_status, actor FROM message_trace WHERE message_id = ?
		AND event = 'read'`, first),
		"read delivered delivered b_inbox")

	// No other reader gets a message that was read through the view, and the message does not expire as unread.
	ms, _, err := reading.Wait(t.Context(), f.Ledger, reading.Options{Recipient: "b", Limit: 10})
	if err != nil || len(ms) != 1 || ms[0].ID != second {
		t.Errorf("read %v, %v; want only %s", ms, err, second)
	}
	f.Clock.Advance(2 * time.Hour)
	f.Deliver()
	want.Equal(t, "status past its ttl", f.Message(first).Status, orchestrator.Delivered)

	// Deleting from an empty inbox, or deleting a missing row, does nothing.
	f.SQL(`DELETE FROM b_inbox`)
	f.SQL(`DELETE FROM b_inbox WHERE message_id = ?`, other)
	want.Equal(t, "events of reading", len(f.Rows(`SELECT 1 FROM message_trace WHERE event = 'read'`)), 2)
}

// TestInboxViewOfArchived checks that a message that was archived unread is still in the view, and that reading it
// there is recorded in the archive.
func TestInboxViewOfArchived(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	f.ViewInboxes("b")
	id := f.Send("a", "b")
	f.Deliver()
	f.Clock.Advance(8 * 24 * time.Hour)
	if _, err := retention.ClearOld(t.Context(), f.Ledger, retention.ClearOptions{}); err != nil {
		t.Fatal(err)
	}
	f.SQL(`DELETE FROM b_inbox`)
	want.Rows(t, f.Rows(`SELECT count(*) FROM agent_message_archive WHERE message_id = ? AND read_at <> ''`, id), "1")
}

// TestInboxViewAfterAReadingLease checks that a message is in the view again as soon as its lease has expired by the
// clock, even if nobody has given it back. During the lease, or once it was read, the message is not in the view.
func TestInboxViewAfterAReadingLease(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	f.ViewInboxes("b", "c")
	first, second := f.Send("a", "b"), f.Send("a", "b")
	want.IDs(t, f.TakeFor("b", time.Minute), first, second)
	lasting := func(until string) { f.SQL(`UPDATE reading_lease SET until = ?`, until) } // the view uses SQLite's clock
	lasting("9999-12-31T23:59:59.999Z")
	want.Rows(t, f.Rows(`SELECT message_id FROM b_inbox`))
	lasting("2026-01-02T03:05:05.000Z")
	want.Rows(t, f.Rows(`SELECT message_id, payload FROM b_inbox ORDER BY message_id`), first+` {"n":1}`,
		second+` {"n":1}`)
	want.Rows(t, f.Rows(`SELECT message_id FROM c_inbox`))
	backlog, err := delivery.Poll(t.Context(), f.Ledger, "b", 1)
	if err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "unread", backlog.Unread, 2)

	f.SQL(`DELETE FROM b_inbox WHERE message_id = ?`, first)
	want.Rows(t, f.Rows(`SELECT message_id FROM b_inbox`), second)
	if backlog, err = delivery.Poll(t.Context(), f.Ledger, "b", 1); err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "unread", backlog.Unread, 1)
	f.Clock.Advance(time.Hour)
	want.IDs(t, f.TakeFor("b", 0), second)
	want.Rows(t, f.Rows(`SELECT message_id FROM b_inbox`))
	want.Rows(t, f.Rows(`SELECT count(*) FROM reading_lease`), "0")
}

// TestInboxViewTakenOnce checks that two programs that empty an inbox at the same time, with one statement that
// deletes and returns the rows, get each message once.
func TestInboxViewTakenOnce(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	f.ViewInboxes("b")
	const n = 60
	for range n {
		f.Send("a", "b")
	}
	f.Deliver()
	taken := make(chan []string)
	for range 4 {
		db := enginetest.Plain(t, f.Path)
		go func() {
			var ids []string
			defer func() { taken <- ids }()
			for {
				rows, err := db.QueryContext(t.Context(), `DELETE FROM b_inbox WHERE message_id IN
					(SELECT message_id FROM b_inbox LIMIT 7) RETURNING message_id`)
				if err != nil {
					t.Error(err)
					return
				}
				before := len(ids)
				for rows.Next() {
					var id string
					if err := rows.Scan(&id); err != nil {
						t.Error(err)
					}
					ids = append(ids, id)
				}
				if rows.Close(); len(ids) == before {
					return
				}
			}
		}()
	}
	var all []string
	for range 4 {
		all = append(all, <-taken...)
	}
	slices.Sort(all)
	want.Equal(t, "taken", len(all), n)
	want.Equal(t, "different ones", len(slices.Compact(all)), n)
	want.Rows(t, f.Rows(`SELECT count(*) FROM b_inbox`), "0")
}
