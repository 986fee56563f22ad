package sqlite_test

import (
	"path/filepath"
	"slices"
	"testing"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/reading"
)

// An earlier view, which knew of no leases, is renewed when the tables are migrated.
func TestInboxViewIsRenewed(t *testing.T) {
	t.Parallel()
	path := enginetest.OldVersion(t, 5)
	if _, err := enginetest.Plain(t, path).Exec(`CREATE VIEW "a_inbox" AS SELECT message_id, payload FROM agent_inbox WHERE recipient = 'a' AND read_at = ''`); err != nil {
		t.Fatal(err)
	}
	if _, err := enginetest.Open(t, path).Store.Create(); err != nil {
		t.Fatal(err)
	}
	fresh := enginetest.New(t, "a")
	if renewed, fresh := inboxViews(t, path), inboxViews(t, fresh.Path); !slices.Equal(renewed, fresh) {
		t.Errorf("renewed: %v\nfresh: %v", renewed, fresh)
	}
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
	if _, err := enginetest.Open(t, old).Store.Create(); err != nil {
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
