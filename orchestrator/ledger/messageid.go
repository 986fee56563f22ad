package ledger

import (
	"bytes"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// MessageID returns the id of a message that is about to be stored: the draft's own id, or a new one.
func (t *Tx) MessageID(d *orchestrator.Draft, recipient string) (string, error) {
	if d.ID != "" {
		return d.ID, nil
	}
	if d.MakeID == nil {
		return t.NewID("msg-")
	}
	at := orchestrator.ParseStamp(t.Now)
	sequence, err := firstFree(func(n int) (bool, error) {
		found, err := t.Number(`
			SELECT EXISTS (SELECT 1 FROM agent_message WHERE message_id = ?1)
			    OR EXISTS (SELECT 1 FROM agent_message_archive WHERE message_id = ?1)`, d.MakeID(recipient, at, n))
		return found != 0, err
	})
	return d.MakeID(recipient, at, sequence), err
}

// Says reports whether a stored message has the same sender, recipient, type and payload as a draft.
func Says(m *orchestrator.Message, d *orchestrator.Draft) bool {
	return m.Sender == d.Sender && m.Recipient == d.Recipient && m.Type == d.Type &&
		bytes.Equal(orchestrator.Compacted(m.Payload), orchestrator.Compacted(d.Payload))
}

// firstFree returns a free number, starting from 1, whose predecessor is taken. The result is the first free number
// if all numbers below a taken one are taken. The number of calls of taken is about twice the number of binary digits
// of the result.
func firstFree(taken func(n int) (bool, error)) (int, error) {
	free, last := 1, 0 // last is taken
	for {
		is, err := taken(free)
		if err != nil {
			return 0, err
		}
		if !is {
			break
		}
		free, last = 2*free, free
	}
	for free-last > 1 {
		middle := last + (free-last)/2
		is, err := taken(middle)
		if err != nil {
			return 0, err
		}
		if is {
			last = middle
		} else {
			free = middle
		}
	}
	return free, nil
}

// MessageWithID returns the message with this id from the table or its archive. It does not find the ids of sends to
// groups; see messages.Find.
func MessageWithID(c *store.Conn, id string) (m orchestrator.Message, found bool, err error) {
	for _, from := range []string{MessageColumns + ` FROM agent_message`,
		ArchivedColumns + ` FROM agent_message_archive`} {
		ms, err := Messages(c, `SELECT `+from+` WHERE message_id = ?`, id)
		if err != nil || len(ms) > 0 {
			return append(ms, m)[0], len(ms) > 0, err
		}
	}
	return m, false, nil
}
