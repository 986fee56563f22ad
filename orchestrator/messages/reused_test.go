package messages_test

import (
	"testing"
	"time"

	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/retention"
)

// An id that was used before, by a message that is archived by now, may be used again: each of its messages is handed out, and
// what is read and acknowledged of one is that of no other.
func TestIDUsedAgain(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b", "c")
	const write = `INSERT INTO agent_message (message_id, sender, recipient, payload) VALUES ('first', 'a', 'b', '1'), ('second', 'a', 'b', '1'), ('third', 'a', ?, '1')`
	archive := func() {
		t.Helper()
		f.Clock.Advance(8 * 24 * time.Hour)
		if _, err := retention.ClearOld(t.Context(), f.Ledger, retention.ClearOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	f.SQL(write, "b")
	f.Deliver()
	archive()
	want.IDs(t, f.TakeFor("b", 0), "first", "second", "third") // from the archive: their places in the inbox stay
	f.SQL(write, "c")
	f.Deliver()
	want.Equal(t, "messages of ids used again", len(f.TakeFor("b", 0)), 2)
	archive()
	if _, err := messages.Acknowledge(t.Context(), f.Ledger, "third", "b"); err != nil {
		t.Fatal(err)
	}
	want.Rows(t, f.Rows(`SELECT recipient, read_at <> '', acknowledged_at <> '' FROM agent_message_archive WHERE message_id = 'third' ORDER BY recipient`), "b 1 1", "c 0 0")
}
