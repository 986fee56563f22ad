package sqlite_test

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/retention"
)

// The view of an inbox is the document's inbox for a program that knows only SQL: it shows what is unread, and what is
// deleted from it is read, everywhere and at once, and the trace says so.
func TestInboxViewIsConsumable(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b", "c")
	first, second := f.Send("a", "b", func(d *orchestrator.Draft) { d.TTL = time.Hour }), f.Send("a", "b")
	other := f.Send("a", "c")
	f.Deliver()
	want.Rows(t, f.Rows(`SELECT message_id FROM b_inbox ORDER BY message_id`), first, second)

	f.SQL(`DELETE FROM b_inbox WHERE message_id = ?`, first)
	want.Rows(t, f.Rows(`SELECT message_id FROM b_inbox`), second)
	want.Rows(t, f.Rows(`SELECT message_id FROM c_inbox`), other)
	want.Rows(t, f.Rows(`SELECT count(*) FROM agent_inbox WHERE message_id = ? AND read_at LIKE '20__-__-__T__:__:__.___Z'`, first), "1")
	read := f.Message(first)
	if len(read.ReadAt) != len("2026-01-02T03:04:05.000Z") {
		t.Errorf("read_at is %q", read.ReadAt)
	}
	want.Rows(t, f.Rows(`SELECT event, old_status, new_status, actor FROM message_trace WHERE message_id = ? AND event = 'read'`, first),
		"read delivered delivered b_inbox")

	// What was read that way no other reader gets, and it does not expire unread.
	ms, _, err := reading.Wait(t.Context(), f.Ledger, reading.Options{Recipient: "b", Limit: 10})
	if err != nil || len(ms) != 1 || ms[0].ID != second {
		t.Errorf("read %v, %v; want only %s", ms, err, second)
	}
	f.Clock.Advance(2 * time.Hour)
	f.Deliver()
	want.Equal(t, "status past its ttl", f.Message(first).Status, orchestrator.Delivered)

	// Emptying an empty inbox, and deleting what is not there, does nothing.
	f.SQL(`DELETE FROM b_inbox`)
	f.SQL(`DELETE FROM b_inbox WHERE message_id = ?`, other)
	want.Equal(t, "events of reading", len(f.Rows(`SELECT 1 FROM message_trace WHERE event = 'read'`)), 2)
}

// A message that retention archived unread is still in the view, and reading it there is noted in the archive.
func TestInboxViewOfArchived(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	id := f.Send("a", "b")
	f.Deliver()
	f.Clock.Advance(8 * 24 * time.Hour)
	if _, err := retention.ClearOld(t.Context(), f.Ledger, retention.ClearOptions{}); err != nil {
		t.Fatal(err)
	}
	f.SQL(`DELETE FROM b_inbox`)
	want.Rows(t, f.Rows(`SELECT count(*) FROM agent_message_archive WHERE message_id = ? AND read_at <> ''`, id), "1")
}

// What a reader was handed under a lease that has run out is unread again in the view, too, by the clock: nobody need have
// given it back. As long as the lease lasts, or once it was read, it is not there.
func TestInboxViewAfterAReadingLease(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b", "c")
	first, second := f.Send("a", "b"), f.Send("a", "b")
	want.IDs(t, f.TakeFor("b", time.Minute), first, second)
	lasting := func(until string) { f.SQL(`UPDATE reading_lease SET until = ?`, until) } // the view goes by SQLite's clock
	lasting("9999-12-31T23:59:59.999Z")
	want.Rows(t, f.Rows(`SELECT message_id FROM b_inbox`))
	lasting("2026-01-02T03:05:05.000Z")
	want.Rows(t, f.Rows(`SELECT message_id, payload FROM b_inbox ORDER BY message_id`), first+` {"n":1}`, second+` {"n":1}`)
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

// An earlier view, which knew of no leases, is renewed when the tables are migrated.
func TestInboxViewIsRenewed(t *testing.T) {
	t.Parallel()
	path := enginetest.OldVersion(t, 5)
	if _, err := enginetest.Plain(t, path).Exec(`CREATE VIEW "a_inbox" AS SELECT message_id, payload FROM agent_inbox WHERE recipient = 'a' AND read_at = ''`); err != nil {
		t.Fatal(err)
	}
	if _, err := enginetest.Open(t, path).Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	fresh := enginetest.New(t, "a")
	if renewed, fresh := inboxViews(t, path), inboxViews(t, fresh.Path); !slices.Equal(renewed, fresh) {
		t.Errorf("renewed: %v\nfresh: %v", renewed, fresh)
	}
}

// Two programs that empty an inbox at once, with the one statement that takes and returns, get each message once.
func TestInboxViewTakenOnce(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
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

// The views that an older version made become consumable when the database is migrated; they equal those of a fresh one.
func TestInboxViewsAreRemade(t *testing.T) {
	t.Parallel()
	old, fresh := enginetest.OldVersion(t, 4), filepath.Join(t.TempDir(), "fresh.db")
	if _, err := enginetest.Plain(t, old).Exec(`
		INSERT INTO agents (name, created_at, updated_at) VALUES ('no-view', '2026-01-01T00:00:00.000Z', '2026-01-01T00:00:00.000Z');
		CREATE VIEW "a_inbox" AS SELECT message_id, payload FROM agent_inbox WHERE recipient = 'a';
		CREATE TRIGGER "a_inbox_insert" INSTEAD OF INSERT ON "a_inbox" BEGIN
		    INSERT INTO agent_inbox (recipient, message_id, payload) VALUES ('a', NEW.message_id, NEW.payload)
		    ON CONFLICT (message_id, recipient) DO NOTHING;
		END;
		INSERT INTO agent_inbox (recipient, message_id, payload, read_at) VALUES ('a', 'read', '1', '2026-01-01T00:00:00.000Z'), ('a', 'unread', '2', '')`); err != nil {
		t.Fatal(err)
	}
	if _, err := enginetest.Open(t, old).Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := agents.Add(t.Context(), enginetest.Open(t, fresh).Ledger, agents.Update{Name: "a"}); err != nil {
		t.Fatal(err)
	}
	if a, b := inboxViews(t, fresh), inboxViews(t, old); !slices.Equal(a, b) {
		t.Errorf("migrated: %v\nfresh: %v", b, a)
	}
	db := enginetest.Plain(t, old)
	var shown string
	if err := db.QueryRow(`SELECT group_concat(message_id) FROM a_inbox`).Scan(&shown); err != nil || shown != "unread" {
		t.Errorf("the view shows %q, %v", shown, err)
	}
}

// inboxViews are the statements that made the views of inboxes and their triggers.
func inboxViews(t *testing.T, path string) (made []string) {
	t.Helper()
	rows, err := enginetest.Plain(t, path).Query(`SELECT sql FROM sqlite_schema WHERE tbl_name LIKE '%\_inbox' ESCAPE '\' AND tbl_name <> 'agent_inbox' ORDER BY name`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var statement string
		if err := rows.Scan(&statement); err != nil {
			t.Fatal(err)
		}
		made = append(made, statement)
	}
	return made
}

// The table that a program of the document has as an agent's inbox is taken over when the agent is added: what stood in it is
// unread mail, and the program goes on with its own statements. Another table of that name is left alone.
func TestDocumentInboxIsTakenOver(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	f.SQL(`CREATE TABLE B_inbox (message_id TEXT PRIMARY KEY, payload JSON); CREATE TABLE c_inbox (id TEXT, body TEXT)`)
	f.SQL(`INSERT INTO b_inbox VALUES ('m1', '{"n":1.50}'), (NULL, '2')`)
	f.SQL(`INSERT INTO agent_message (message_id, sender, recipient, payload, status, delivered_at) VALUES ('m1', 'a', 'b', '{"n":1.50}', 'delivered', CURRENT_TIMESTAMP)`)
	f.Add(agents.Update{Name: "b"})
	want.Rows(t, f.Rows(`SELECT message_id, payload FROM b_inbox ORDER BY message_id DESC`), `m1 {"n":1.50}`, "inbox-2 2")
	ms, _, err := reading.Wait(t.Context(), f.Ledger, reading.Options{Recipient: "b", Limit: 1})
	if err != nil || len(ms) != 1 || ms[0].Sender != "a" {
		t.Errorf("%v, %v", ms, err)
	}
	f.SQL(`INSERT INTO b_inbox (message_id, payload) VALUES ('m2', '2')`)
	f.SQL(`DELETE FROM b_inbox`)
	want.Rows(t, f.Rows(`SELECT message_id FROM b_inbox`))

	_, _, err = agents.Add(t.Context(), f.Ledger, agents.Update{Name: "c"})
	want.Code(t, err, orchestrator.Conflict)
	want.Rows(t, f.Rows(`SELECT name FROM sqlite_schema WHERE name LIKE 'c%inbox%'`), "c_inbox")
}
