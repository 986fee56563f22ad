package messages

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// hash tells whether two sends with one idempotency key are the same: it covers what the sender asked for, as the row
// keeps it. Hashes stand on disk, so the fields keep their names and their order, and a new one must be left out while
// it is empty.
func hash(d *orchestrator.Draft, session string) string {
	notBefore := ""
	if !d.NotBefore.IsZero() {
		notBefore = orchestrator.Stamp(d.NotBefore)
	}
	b, _ := json.Marshal(struct { // plain fields and checked JSON always marshal
		Sender, Recipient, Type                                                string
		Payload                                                                json.RawMessage
		MaxRetries                                                             *int
		Priority                                                               int
		TTL                                                                    time.Duration
		IdempotencyKey, ReplyTo, Summary, Context, Action, ThreadID, SessionID string
		AckWithin                                                              time.Duration `json:",omitempty"`
		HoldUnknown                                                            bool
		// says nothing of the message: always false
		RegisterSender bool
		NotBefore      string            `json:",omitempty"`
		Delay          time.Duration     `json:",omitempty"`
		ID             string            `json:",omitempty"`
		Wake           orchestrator.Wake `json:",omitempty"`
	}{
		Sender: d.Sender, Recipient: d.Recipient, Type: d.Type, Payload: d.Payload, MaxRetries: d.MaxRetries,
		Priority: d.Priority,
		TTL:      d.TTL, IdempotencyKey: d.IdempotencyKey, ReplyTo: d.ReplyTo, Summary: d.Summary, Context: d.Context,
		Action:   d.Action,
		ThreadID: d.ThreadID, SessionID: session, AckWithin: d.AckWithin, HoldUnknown: d.HoldUnknown,
		NotBefore: notBefore, Delay: d.Delay, ID: d.ID, Wake: d.Wake,
	})
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// ownHash is the hash that is kept. A session that the sender did not name is only where it happened to work: a repeat
// from another one is the same send.
func ownHash(d *orchestrator.Draft) string {
	if d.SessionNamed {
		return hash(d, d.SessionID)
	}
	return hash(d, "")
}

// earlier is what came of the first send with an idempotency key. The zero value: there was none.
type earlier struct {
	Sent    *orchestrator.Sent    // its result
	Refused *orchestrator.Message // it was refused: the dead letter that it left, which nobody has replayed
	Differs bool                  // the draft corrects what was refused, by another recipient or by HoldUnknown
}

// firstSend looks for an earlier send with the draft's idempotency key, or else with its own id. One that was refused
// and is not a dead letter any more was sent by a replay. Error: conflict if it was another message. A draft that only
// corrects the recipient of one that was refused is no other message.
func firstSend(t *ledger.Tx, d *orchestrator.Draft) (first earlier, err error) {
	if d.IdempotencyKey != "" {
		first, err = firstResult(t, d)
	}
	if err != nil || first.Sent != nil || d.ID == "" {
		return first, err
	}
	sent, found, err := firstWithID(t, d)
	if found {
		first.Sent = &sent
	}
	return first, err
}

// firstResult looks for an earlier send with the draft's idempotency key.
func firstResult(t *ledger.Tx, d *orchestrator.Draft) (first earlier, err error) {
	var have, result string
	found := false
	err = t.Query(`SELECT params_hash, result FROM idempotency WHERE sender = ? AND key = ?`,
		func(row store.Row) error {
			have, result, found = row.Text(0), row.Text(1), true
			return nil
		}, d.Sender, d.IdempotencyKey)
	if err != nil || !found {
		return first, err
	}
	sent := orchestrator.Sent{}
	if err := json.Unmarshal([]byte(result), &sent); err != nil {
		return first, err
	}
	if sent.Status == orchestrator.Failed {
		m, kept, err := ledger.MessageWithID(t.Conn, sent.MessageID)
		if err != nil {
			return first, err
		}
		if !kept { // deleted by hand: nothing is left of it but its key
			return first, dropKey(t, d)
		}
		if ledger.WasRefused(&m) {
			first.Refused = &m
		} else {
			sent = sentAs(&m)
		}
	}
	switch {
	case isHash(have, d):
	case first.Refused != nil && isHash(have, withRecipient(d, &sent)):
		first.Differs = true
	case d.IdempotencyKey == d.ID:
		return first, idTaken(d.ID) // nobody but us has called it a key
	default:
		return first, orchestrator.Errorf(orchestrator.Conflict,
			"the idempotency key %q is already in use: %s used it for another message", d.IdempotencyKey, d.Sender).
			WithHint("Use a new key for a new message")
	}
	if first.Refused == nil {
		sent.Idempotent = true
		first.Sent = &sent
	}
	return first, nil
}

// isHash reports whether a hash is that of a draft. Rows of earlier versions have one with the session, whether it was
// named or not.
func isHash(have string, d *orchestrator.Draft) bool {
	return have == ownHash(d) || have == hash(d, d.SessionID)
}

// withRecipient returns a draft with the recipient of one that was refused.
func withRecipient(d *orchestrator.Draft, refused *orchestrator.Sent) *orchestrator.Draft {
	as := *d
	as.Recipient, as.HoldUnknown = refused.Recipients[0], refused.Held
	return &as
}

// keepResult stores the result of a send, for when it is repeated with the same idempotency key.
func keepResult(t *ledger.Tx, d *orchestrator.Draft, sent orchestrator.Sent) error {
	result, err := json.Marshal(sent)
	if err != nil {
		return err
	}
	_, err = t.Exec(`INSERT INTO idempotency (sender, key, params_hash, result, created_at) VALUES (?, ?, ?, ?, ?)`,
		d.Sender, d.IdempotencyKey, ownHash(d), string(result), t.Now)
	return err
}

// keepRefusal notes that a draft with an idempotency key was refused, and which dead letter it has left: a repeat is
// answered with the same.
func keepRefusal(t *ledger.Tx, d *orchestrator.Draft, letter string) error {
	return keepResult(t, d, orchestrator.Sent{MessageID: letter, Recipients: []string{d.Recipient}, Held: d.HoldUnknown,
		Status: orchestrator.Failed})
}

// dropKey forgets what came of the first send with a draft's idempotency key.
func dropKey(t *ledger.Tx, d *orchestrator.Draft) error {
	if err := t.MustBeAlone(); err != nil {
		return err
	}
	return t.Run(`DELETE FROM idempotency WHERE sender = ? AND key = ?`, d.Sender, d.IdempotencyKey)
}

// firstWithID looks for a message that came with the draft's own id in another way, such as a file. One that says
// something else is a conflict, which tells no more of it: it may be a stranger's.
func firstWithID(t *ledger.Tx, d *orchestrator.Draft) (sent orchestrator.Sent, found bool, err error) {
	conf := t.Config()
	m, found, err := ledger.MessageWithID(t.Conn, d.ID)
	if err != nil || !found {
		return sent, false, err
	}
	if !conf.Sent(&m, d.Sender) || !ledger.Says(&m, d) || m.Priority != d.Priority || m.ReplyTo != d.ReplyTo {
		return sent, false, idTaken(d.ID)
	}
	sent = sentAs(&m)
	sent.Idempotent = true
	return sent, true, nil
}

// sentAs is the result of a send that has stored one message.
func sentAs(m *orchestrator.Message) orchestrator.Sent {
	return orchestrator.Sent{
		MessageID: m.ID, MessageIDs: []string{m.ID}, Recipients: []string{m.Recipient}, Status: orchestrator.Pending,
		CreatedAt: m.CreatedAt,
		Origin:    m.Origin,
	}
}

// idTaken is the error for an id that another message has, whoever wrote that one.
func idTaken(id string) error {
	return orchestrator.Errorf(orchestrator.Conflict, "another message has the ID %s", orchestrator.Clip(id)).
		WithHint("Use a different ID. If you omit the ID, Mailroom assigns one")
}
