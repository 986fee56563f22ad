package route

import (
	"strings"
	"testing"

	"mailroom/commands/terminal"
	"mailroom/orchestrator/delivery"
)

// TestDeliverAllTellsWhyWhole checks that the reason of a failed attempt is not cut on a terminal of any width, and
// is broken between words.
func TestDeliverAllTellsWhyWhole(t *testing.T) {
	t.Parallel()
	why := "Failed to deliver message after 1 attempt: the recipient rejected the message: 127.0.0.1:8080 answered 400 Bad Request"
	var b strings.Builder
	r := DeliverAllResult{Failed: 1,
		Errors: []AttemptError{{FailedAttempt: delivery.FailedAttempt{MessageID: "m", Recipient: "hook",
			Message: why}}}}
	r.Text(&terminal.Text{Out: &b, Width: 100})
	why = strings.Replace(why, ": 127", ":\n          127", 1)
	want := "Delivered: 0. Failed attempts: 1.\n\nmessage   m\nto        hook\nretry at  never (dead letter)\nreason    " + why +
		"\n"
	if b.String() != want {
		t.Errorf("%q; want %q", b.String(), want)
	}
}
