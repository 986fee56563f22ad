package tables_test

import (
	"testing"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/reading"
)

// If a program of the command document has created a table as an agent's inbox, the table is taken over when the
// agent is added: its rows are unread mail, and the program's statements still work. Another table of that name is
// left unchanged.
func TestDocumentInboxIsTakenOver(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	f.SQL(`CREATE TABLE B_inbox (message_id TEXT PRIMARY KEY, payload JSON); CREATE TABLE c_inbox (id TEXT, body TEXT)`)
	f.SQL(`INSERT INTO b_inbox VALUES ('m1', '{"n":1.50}'), (NULL, '2')`)
	f.SQL(`INSERT INTO agent_message (message_id, sender, recipient, payload, status, delivered_at)
		VALUES ('m1', 'a', 'b', '{"n":1.50}', 'delivered', CURRENT_TIMESTAMP)`)
	f.Add(agents.Update{Name: "b"})
	want.Rows(t, f.Rows(`SELECT message_id, payload FROM b_inbox ORDER BY message_id DESC`), `m1 {"n":1.50}`,
		"inbox-2 2")
	ms, _, err := reading.Wait(t.Context(), f.Ledger, reading.Options{Recipient: "b", Limit: 1})
	if err != nil || len(ms) != 1 || ms[0].Sender != "a" {
		t.Errorf("%v, %v", ms, err)
	}
	f.SQL(`INSERT INTO b_inbox (message_id, payload) VALUES ('m2', '2')`)
	f.SQL(`DELETE FROM b_inbox`)
	want.Rows(t, f.Rows(`SELECT message_id FROM b_inbox`))

	_, _, err = agents.Add(t.Context(), f.Ledger, agents.Update{Name: "c", InboxView: new(true)})
	want.Code(t, err, orchestrator.Conflict)
	f.Add(agents.Update{Name: "c"})
	want.Rows(t, f.Rows(`SELECT name FROM sqlite_schema WHERE name LIKE 'c%inbox%'`), "c_inbox")

	f.Add(agents.Update{Name: "b", InboxView: new(false)})
	want.Rows(t, f.Rows(`SELECT name FROM sqlite_schema WHERE name LIKE 'b%inbox%'`))
}
