package delivery_test

import (
	"testing"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/transport"
)

// shelf is the table transport of another program: it puts all messages into the inbox of "shelf".
type shelf struct{ transport.Inbox }

func (shelf) DeliverSet(exec func(query string, args ...any) error, at string) error {
	return exec(`INSERT INTO agent_inbox (recipient, message_id, payload, delivered_at)
		SELECT 'shelf', message_id, payload, ? FROM agent_message WHERE seq IN (SELECT seq FROM temp.batch)`, at)
}

func (shelf) DeliverRead(exec func(query string, args ...any) error, seq int64, at string) error {
	return exec(`INSERT INTO agent_inbox (recipient, message_id, payload, delivered_at, read_at)
		SELECT 'shelf', message_id, payload, ?1, ?1 FROM agent_message WHERE seq = ?2`, at, seq)
}

// TestSetsGoThroughTheirTransports checks that a set goes through the transport of its recipients, also in a program
// that has another such transport beside the inbox, or has no inbox.
func TestSetsGoThroughTheirTransports(t *testing.T) {
	t.Parallel()
	for name, transports := range map[string]map[string]orchestrator.Transport{
		"beside the inbox":  {"inbox": transport.Inbox{}, "shelf": shelf{}},
		"without the inbox": {"shelf": shelf{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := enginetest.New(t)
			e := enginetest.OpenWith(t, ledger.Options{Path: f.Path, Transports: transports})
			var there []string
			for _, recipient := range []string{"a", "b", "c"} {
				deliver, at := "shelf", "shelf"
				if recipient != "b" && transports["inbox"] != nil {
					deliver, at = "inbox", recipient
				}
				if _, _, err := agents.Add(t.Context(), e.Ledger,
					agents.Update{Name: recipient, Deliver: &deliver}); err != nil {
					t.Fatal(err)
				}
				sent, err := messages.Send(t.Context(), e.Ledger,
					orchestrator.Draft{Sender: recipient, Recipient: recipient, Type: "note", Payload: []byte(`{}`)})
				if err != nil {
					t.Fatal(err)
				}
				there = append(there, at+" "+sent.MessageID)
			}
			done, err := e.DeliverAll(t.Context(), delivery.Options{})
			if err != nil {
				t.Fatal(err)
			}
			want.Equal(t, "delivered", done.Delivered, len(there))
			const inboxes = `SELECT i.recipient, message_id FROM agent_inbox i JOIN agent_message m USING (message_id)
				WHERE m.message_type = ? ORDER BY m.recipient`
			want.Rows(t, f.Rows(inboxes, "note"), there...)
			trials, err := delivery.TryTransports(t.Context(), e.Ledger)
			if err != nil {
				t.Fatal(err)
			}
			there = nil
			for _, trial := range trials {
				at := "shelf"
				if trial.Agent != "b" && transports["inbox"] != nil {
					at = trial.Agent
				}
				there = append(there, at+" "+trial.MessageID)
			}
			want.Equal(t, "trials", len(trials), 3)
			want.Rows(t, f.Rows(inboxes, orchestrator.TestMessage), there...)
		})
	}
}
