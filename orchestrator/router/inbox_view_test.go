package router_test

import (
	"path/filepath"
	"slices"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/retention"
)

// The view of an inbox is the document's inbox for a program that knows only SQL: it shows what is unread, and what is
// deleted from it is read, everywhere and at once, and the trace says so.
func TestInboxViewIsConsumable(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "b", "c")
	first, second := f.send("a", "b", func(d *orchestrator.Draft) { d.TTL = time.Hour }), f.send("a", "b")
	other := f.send("a", "c")
	f.deliver()
	wantRows(t, f.rows(`SELECT message_id FROM b_inbox ORDER BY message_id`), first, second)

	f.sql(`DELETE FROM b_inbox WHERE message_id = ?`, first)
	wantRows(t, f.rows(`SELECT message_id FROM b_inbox`), second)
	wantRows(t, f.rows(`SELECT message_id FROM c_inbox`), other)
	wantRows(t, f.rows(`SELECT count(*) FROM agent_inbox WHERE message_id = ? AND read_at LIKE '20__-__-__T__:__:__.___Z'`, first), "1")
	read := f.message(first)
	if len(read.ReadAt) != len("2026-01-02T03:04:05.000Z") {
		t.Errorf("read_at is %q", read.ReadAt)
	}
	wantRows(t, f.rows(`SELECT event, old_status, new_status, actor FROM message_trace WHERE message_id = ? AND event = 'read'`, first),
		"read delivered delivered b_inbox")

	// What was read that way no other reader gets, and it does not expire unread.
	ms, _, err := reading.Wait(t.Context(), f.Ledger, reading.Options{Recipient: "b", Limit: 10})
	if err != nil || len(ms) != 1 || ms[0].ID != second {
		t.Errorf("read %v, %v; want only %s", ms, err, second)
	}
	f.clock.advance(2 * time.Hour)
	f.deliver()
	want(t, "status past its ttl", f.message(first).Status, orchestrator.Delivered)

	// Emptying an empty inbox, and deleting what is not there, does nothing.
	f.sql(`DELETE FROM b_inbox`)
	f.sql(`DELETE FROM b_inbox WHERE message_id = ?`, other)
	want(t, "events of reading", len(f.rows(`SELECT 1 FROM message_trace WHERE event = 'read'`)), 2)
}

// A message that retention archived unread is still in the view, and reading it there is noted in the archive.
func TestInboxViewOfArchived(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "b")
	id := f.send("a", "b")
	f.deliver()
	f.clock.advance(8 * 24 * time.Hour)
	if _, err := retention.ClearOld(t.Context(), f.Ledger, retention.ClearOptions{}); err != nil {
		t.Fatal(err)
	}
	f.sql(`DELETE FROM b_inbox`)
	wantRows(t, f.rows(`SELECT count(*) FROM agent_message_archive WHERE message_id = ? AND read_at <> ''`, id), "1")
}

// What a reader was handed under a lease that has run out is unread again in the view, too, by the clock: nobody need have
// given it back. As long as the lease lasts, or once it was read, it is not there.
func TestInboxViewAfterAReadingLease(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "b", "c")
	first, second := f.send("a", "b"), f.send("a", "b")
	wantTaken(t, f.takeFor("b", time.Minute), first, second)
	lasting := func(until string) { f.sql(`UPDATE reading_lease SET until = ?`, until) } // the view goes by SQLite's clock
	lasting("9999-12-31T23:59:59.999Z")
	wantRows(t, f.rows(`SELECT message_id FROM b_inbox`))
	lasting("2026-01-02T03:05:05.000Z")
	wantRows(t, f.rows(`SELECT message_id, payload FROM b_inbox ORDER BY message_id`), first+` {"n":1}`, second+` {"n":1}`)
	wantRows(t, f.rows(`SELECT message_id FROM c_inbox`))
	backlog, err := delivery.Poll(t.Context(), f.Ledger, "b", 1)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "unread", backlog.Unread, 2)

	f.sql(`DELETE FROM b_inbox WHERE message_id = ?`, first)
	wantRows(t, f.rows(`SELECT message_id FROM b_inbox`), second)
	if backlog, err = delivery.Poll(t.Context(), f.Ledger, "b", 1); err != nil {
		t.Fatal(err)
	}
	want(t, "unread", backlog.Unread, 1)
	f.clock.advance(time.Hour)
	wantTaken(t, f.takeFor("b", 0), second)
	wantRows(t, f.rows(`SELECT message_id FROM b_inbox`))
	wantRows(t, f.rows(`SELECT count(*) FROM reading_lease`), "0")
}

// An earlier view, which knew of no leases, is renewed when the tables are migrated.
func TestInboxViewIsRenewed(t *testing.T) {
	t.Parallel()
	path := oldVersion(t, 5)
	if _, err := openPlain(t, path).Exec(`CREATE VIEW "a_inbox" AS SELECT message_id, payload FROM agent_inbox WHERE recipient = 'a' AND read_at = ''`); err != nil {
		t.Fatal(err)
	}
	if _, err := openAt(t, path).Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	fresh := newFixture(t, "a")
	if renewed, fresh := inboxViews(t, path), inboxViews(t, fresh.path); !slices.Equal(renewed, fresh) {
		t.Errorf("renewed: %v\nfresh: %v", renewed, fresh)
	}
}

// Two programs that empty an inbox at once, with the one statement that takes and returns, get each message once.
func TestInboxViewTakenOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "b")
	const n = 60
	for range n {
		f.send("a", "b")
	}
	f.deliver()
	taken := make(chan []string)
	for range 4 {
		db := openPlain(t, f.path)
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
	want(t, "taken", len(all), n)
	want(t, "different ones", len(slices.Compact(all)), n)
	wantRows(t, f.rows(`SELECT count(*) FROM b_inbox`), "0")
}

// The views that an older version made become consumable when the database is migrated; they equal those of a fresh one.
func TestInboxViewsAreRemade(t *testing.T) {
	t.Parallel()
	old, fresh := oldVersion(t, 4), filepath.Join(t.TempDir(), "fresh.db")
	if _, err := openPlain(t, old).Exec(`
		INSERT INTO agents (name, created_at, updated_at) VALUES ('no-view', '2026-01-01T00:00:00.000Z', '2026-01-01T00:00:00.000Z');
		CREATE VIEW "a_inbox" AS SELECT message_id, payload FROM agent_inbox WHERE recipient = 'a';
		CREATE TRIGGER "a_inbox_insert" INSTEAD OF INSERT ON "a_inbox" BEGIN
		    INSERT INTO agent_inbox (recipient, message_id, payload) VALUES ('a', NEW.message_id, NEW.payload)
		    ON CONFLICT (message_id, recipient) DO NOTHING;
		END;
		INSERT INTO agent_inbox (recipient, message_id, payload, read_at) VALUES ('a', 'read', '1', '2026-01-01T00:00:00.000Z'), ('a', 'unread', '2', '')`); err != nil {
		t.Fatal(err)
	}
	if _, err := openAt(t, old).Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := agents.Add(t.Context(), openAt(t, fresh).Ledger, agents.Update{Name: "a"}); err != nil {
		t.Fatal(err)
	}
	if a, b := inboxViews(t, fresh), inboxViews(t, old); !slices.Equal(a, b) {
		t.Errorf("migrated: %v\nfresh: %v", b, a)
	}
	db := openPlain(t, old)
	var shown string
	if err := db.QueryRow(`SELECT group_concat(message_id) FROM a_inbox`).Scan(&shown); err != nil || shown != "unread" {
		t.Errorf("the view shows %q, %v", shown, err)
	}
}

// inboxViews are the statements that made the views of inboxes and their triggers.
func inboxViews(t *testing.T, path string) (made []string) {
	t.Helper()
	rows, err := openPlain(t, path).Query(`SELECT sql FROM sqlite_schema WHERE tbl_name LIKE '%\_inbox' ESCAPE '\' AND tbl_name <> 'agent_inbox' ORDER BY name`)
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
	f := newFixture(t, "a")
	f.sql(`CREATE TABLE B_inbox (message_id TEXT PRIMARY KEY, payload JSON); CREATE TABLE c_inbox (id TEXT, body TEXT)`)
	f.sql(`INSERT INTO b_inbox VALUES ('m1', '{"n":1.50}'), (NULL, '2')`)
	f.sql(`INSERT INTO agent_message (message_id, sender, recipient, payload, status, delivered_at) VALUES ('m1', 'a', 'b', '{"n":1.50}', 'delivered', CURRENT_TIMESTAMP)`)
	f.add(agents.Update{Name: "b"})
	wantRows(t, f.rows(`SELECT message_id, payload FROM b_inbox ORDER BY message_id DESC`), `m1 {"n":1.50}`, "inbox-2 2")
	ms, _, err := reading.Wait(t.Context(), f.Ledger, reading.Options{Recipient: "b", Limit: 1})
	if err != nil || len(ms) != 1 || ms[0].Sender != "a" {
		t.Errorf("%v, %v", ms, err)
	}
	f.sql(`INSERT INTO b_inbox (message_id, payload) VALUES ('m2', '2')`)
	f.sql(`DELETE FROM b_inbox`)
	wantRows(t, f.rows(`SELECT message_id FROM b_inbox`))

	_, _, err = agents.Add(t.Context(), f.Ledger, agents.Update{Name: "c"})
	wantCode(t, err, orchestrator.Conflict)
	wantRows(t, f.rows(`SELECT name FROM sqlite_schema WHERE name LIKE 'c%inbox%'`), "c_inbox")
}
