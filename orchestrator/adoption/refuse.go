package adoption

import (
	"fmt"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/tracing"
)

// maxForeign is the largest payload, in bytes, that adoption reads. A message with a larger payload fails, and its
// payload stays unchanged.
const maxForeign = 16 * orchestrator.MaxPayload

// maxForeignName and maxForeignID are the longest names and ids, in bytes, that adoption keeps whole. A server cannot
// index much longer ones, so their rows could not be processed.
const (
	maxForeignName = 255
	maxForeignID   = 2000
)

// tooLong describes the first value of a row that exceeds its limit, or returns "".
func (f *ForeignRow) tooLong() string {
	for _, v := range []struct {
		what string
		has  bool
		most int
	}{
		{"payload", f.tooBig, maxForeign}, {"sender", len(Name(f.sender)) > maxForeignName, maxForeignName},
		{"recipient", len(Name(f.Recipient)) > maxForeignName, maxForeignName},
		{"message_id", len(f.id) > maxForeignID, maxForeignID},
	} {
		if v.has {
			return fmt.Sprintf("its %s has more than %d bytes", v.what, v.most)
		}
	}
	return ""
}

// refuseForeign makes a row with a value that is too long a dead letter. It shortens a name or an id that is too
// long.
func refuseForeign(t *ledger.Tx, f *ForeignRow, reason string) error {
	if f.blobID || len(f.id) > maxForeignID {
		f.id = fmt.Sprintf("%s-%d", cut(strings.ToValidUTF8(f.id, "\uFFFD"), maxForeignID), f.seq)
		if err := t.Run(`UPDATE agent_message SET message_id = ? WHERE seq = ?`, f.id, f.seq); err != nil {
			return err
		}
	}
	event := t.Event(tracing.Failed, reason)
	event.MessageID, event.NewStatus = f.id, string(orchestrator.Failed)
	if err := tracing.Record(t, event); err != nil {
		return err
	}
	recipient := cut(Name(f.Recipient), maxForeignName)
	err := t.Run(`UPDATE agent_message SET status = 'failed', traced_status = 'failed', ended_at = ?2,
		error_message = ?3, sender = ?4, recipient = ?5,
		review_at = '', next_attempt_at = '', `+ledger.NoLease+` WHERE seq = ?1`,
		f.seq, t.Now, reason, cut(Name(f.sender), maxForeignName), recipient)
	if err != nil {
		return err
	}
	return ledger.CountAdopted(t, f.seq, recipient, orchestrator.Status(f.Traced), orchestrator.Failed)
}

// cut returns the beginning of a text, at most so many bytes.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "")
}
