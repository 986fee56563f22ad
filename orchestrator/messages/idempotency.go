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

// hash returns a hash of what the sender asked for, in the form that a row keeps. Two sends with the same idempotency
// key are the same if their hashes are equal. Hashes are stored on disk. Therefore the fields must keep their names
// and their order, and a new field must be omitted while it is empty.
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
		// unrelated to the message: always false
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

// ownHash returns the hash to store. It omits a session that the sender did not name itself, because such a session
// is only where the sender happened to work: a repetition from another session is the same send.
func ownHash(d *orchestrator.Draft) string {
	if d.SessionNamed {
		return hash(d, d.SessionID)
	}
	return hash(d, "")
}

// earlier is the outcome of the first send with an idempotency key. The zero value means that there was none.
type earlier struct {
	Sent    *orchestrator.Sent    // result of the send
	Refused *orchestrator.Message // dead letter that it left if it was refused and not replayed since
	Differs bool                  // the draft corrects the refused send by another recipient or by HoldUnknown
}

// firstSend looks for an earlier send with the draft's idempotency key, or else with its own id. A refused send whose
// message is no longer a dead letter was sent by a replay. Error: conflict if the earlier send was a different
// message. A draft that only corrects the recipient of a refused send is not a different message.
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
		if !kept { // deleted by hand: only the key is left
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
		return first, idTaken(d.ID) // the sender gave only an id, not a key
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

// isHash reports whether have is the hash of a draft. Rows of earlier versions contain a hash that includes the
// session, whether the sender named it or not.
func isHash(have string, d *orchestrator.Draft) bool {
	return have == ownHash(d) || have == hash(d, d.SessionID)
}

// withRecipient returns a copy of a draft with the recipient of a refused send.
func withRecipient(d *orchestrator.Draft, refused *orchestrator.Sent) *orchestrator.Draft {
	as := *d
	as.Recipient, as.HoldUnknown = refused.Recipients[0], refused.Held
	return &as
}

// keepResult stores the result of a send, to be returned if the send is repeated with the same idempotency key.
func keepResult(t *ledger.Tx, d *orchestrator.Draft, sent orchestrator.Sent) error {
	result, err := json.Marshal(sent)
	if err != nil {
		return err
	}
	_, err = t.Exec(`INSERT INTO idempotency (sender, key, params_hash, result, created_at) VALUES (?, ?, ?, ?, ?)`,
		d.Sender, d.IdempotencyKey, ownHash(d), string(result), t.Now)
	return err
}

// keepRefusal records that a draft with an idempotency key was refused and left the given dead letter. A repetition
// is answered with the same dead letter.
func keepRefusal(t *ledger.Tx, d *orchestrator.Draft, letter string) error {
	return keepResult(t, d, orchestrator.Sent{MessageID: letter, Recipients: []string{d.Recipient}, Held: d.HoldUnknown,
		Status: orchestrator.Failed})
}

// dropKey deletes the stored result for a draft's idempotency key.
func dropKey(t *ledger.Tx, d *orchestrator.Draft) error {
	if err := t.MustBeAlone(); err != nil {
		return err
	}
	return t.Run(`DELETE FROM idempotency WHERE sender = ? AND key = ?`, d.Sender, d.IdempotencyKey)
}

// firstWithID looks for a message that came with the draft's own id in another way, such as a file. If that message
// has other content, the error is a conflict that reveals nothing else about it, because it may belong to a stranger.
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

// sentAs returns the result of a send that stored one message.
func sentAs(m *orchestrator.Message) orchestrator.Sent {
	return orchestrator.Sent{
		MessageID: m.ID, MessageIDs: []string{m.ID}, Recipients: []string{m.Recipient}, Status: orchestrator.Pending,
		CreatedAt: m.CreatedAt,
		Origin:    m.Origin,
	}
}

// idTaken returns the error for an id that another message has, whoever wrote that message.
func idTaken(id string) error {
	return orchestrator.Errorf(orchestrator.Conflict, "another message has the ID %s", orchestrator.Clip(id)).
		WithHint("Use a different ID. If you omit the ID, Mailroom assigns one")
}
