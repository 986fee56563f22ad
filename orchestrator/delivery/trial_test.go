package delivery_test

import (
	"strings"
	"testing"

	"mailroom/orchestrator"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/overview"
)

// TestFailedTrialsAreNoDeadLetters checks that a test message that does not arrive does not become a dead letter: it
// is cancelled, with the reason in its trace. The same holds if it was left to the next run.
func TestFailedTrialsAreNoDeadLetters(t *testing.T) {
	t.Parallel()
	f, _ := enginetest.NewPhones(t, 1)
	f.AddWired("w")
	f.Wire.Set(enginetest.Failing("down"))
	trials, err := delivery.TryTransports(t.Context(), f.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	devices, err := delivery.TryDevices(t.Context(), f.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	f.SQL(`INSERT INTO agent_message (message_id, sender, recipient, message_type, payload, status, traced_status,
		max_retries)
		VALUES ('left', 'system', 'w', 'transport_test', '{}', 'pending', 'pending', 0)`)
	f.Deliver()
	failed := []string{"left"}
	for _, trial := range append(trials, devices...) {
		if !trial.Delivered {
			failed = append(failed, trial.MessageID)
		}
	}
	want.Equal(t, "trials that failed", len(failed), 3)
	for _, id := range failed {
		want.Equal(t, "status", f.Message(id).Status, orchestrator.Cancelled)
		want.Rows(t, f.Rows(`SELECT event, error LIKE '%down' FROM message_trace WHERE message_id = ?
			AND event NOT IN ('created','claimed')`, id),
			"attempt_failed 1", "cancelled 1")
		why, err := overview.Why(t.Context(), f.Ledger, id)
		if err != nil || !strings.Contains(why[0].Rule, "canceled: a test message from mailroom doctor: down") {
			t.Errorf("%+v, %v", why, err)
		}
	}
	dead, err := messages.DeadLetters(t.Context(), f.Ledger, messages.DeadLetterFilter{Limit: 1})
	want.Equal(t, "dead letters", dead.Total, 0)
	if err != nil {
		t.Error(err)
	}
	want.Equal(t, "reports to senders", len(f.Rows(`SELECT 1 FROM agent_message WHERE message_type = 'error_report'`)),
		0)
}
