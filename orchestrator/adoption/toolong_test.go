package adoption_test

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"mailroom/orchestrator"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
)

// long returns a text of the given length that does not compress well.
func long(bytes int) string {
	var text strings.Builder
	for sum := sha256.Sum256(nil); text.Len() < bytes; sum = sha256.Sum256(sum[:]) {
		text.WriteString(hex.EncodeToString(sum[:]))
	}
	return text.String()[:bytes]
}

// TestTooLongValuesFail checks that a row with a name or an id that is too long for a server's index becomes one dead
// letter, and that the rows after it are delivered.
func TestTooLongValuesFail(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	for column, row := range map[string][3]string{
		"sender": {"by sender", long(10_000), "b"}, "recipient": {"by recipient", "a", long(2_600)},
		"message_id": {long(2_100), "a", "b"},
	} {
		f.SQL(`INSERT INTO agent_message (message_id, sender, recipient, payload) VALUES (?, ?, ?, '1')`, row[0],
			row[1], row[2])
		id := f.Send("a", "b")
		for range 3 {
			f.Deliver()
		}
		want.Equal(t, "behind it", f.Message(id).Status, orchestrator.Delivered)
		want.Equal(t, column,
			len(f.Rows(`SELECT 1 FROM agent_message WHERE status = 'failed' AND traced_status = 'failed'
				AND error_message LIKE ?`, "its "+column+" has more than %")), 1)
		want.Equal(t, column+" in the trace",
			len(f.Rows(`SELECT 1 FROM message_trace WHERE event = 'failed' AND error LIKE ?`,
				"its "+column+" has more than %")), 1)
	}
	want.Equal(t, "rows", len(f.Rows(`SELECT 1 FROM agent_message WHERE status IN ('pending', 'retry')`)), 0)
}
