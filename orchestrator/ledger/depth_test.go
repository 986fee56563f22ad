package ledger_test

import (
	"encoding/json"
	"strings"
	"testing"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/reading"
)

// nested returns JSON lists nested to the given number of levels.
func nested(levels int) string { return strings.Repeat("[", levels) + strings.Repeat("]", levels) }

// TestDeepPayloads checks that a payload that is nested too deeply to be read again is refused. If somebody wrote one
// by hand, it is treated as text and does not block an inbox.
func TestDeepPayloads(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	_, err := messages.Send(t.Context(), f.Ledger,
		orchestrator.Draft{Sender: "a", Recipient: "b", Type: "note",
			Payload: json.RawMessage(nested(ledger.MaxDepth + 1))})
	want.Code(t, err, orchestrator.InvalidParams)
	f.SQL(`INSERT INTO agent_message (message_id, sender, recipient, payload) VALUES ('deep', 'a', 'b', ?),
		('quoted', 'a', 'b', ?)`, nested(9999), `"`+strings.Repeat(`[\"`, 5000)+`"`)
	f.Send("a", "b", func(d *orchestrator.Draft) { d.Payload = json.RawMessage(nested(ledger.MaxDepth)) })
	f.Deliver()
	ms, _, err := reading.Wait(t.Context(), f.Ledger, reading.Options{Recipient: "b", Limit: 10})
	if err != nil || len(ms) != 3 {
		t.Fatalf("%d messages, %v", len(ms), err)
	}
	if _, err := json.Marshal(ms); err != nil {
		t.Error(err)
	}
	want.Equal(t, "levels of what is text", ledger.IsDeep(ms[1].Payload), false)
}
