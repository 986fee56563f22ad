package ledger

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// hash tells whether two sends with one idempotency key are the same: it covers what the sender asked for, as the row
// keeps it. Hashes stand on disk, so the fields keep their names and their order, and a new one must be left out while it
// is empty.
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
		RegisterSender                                                         bool          // says nothing of the message: always false
		NotBefore                                                              string        `json:",omitempty"`
		Delay                                                                  time.Duration `json:",omitempty"`
		ID                                                                     string        `json:",omitempty"`
	}{
		Sender: d.Sender, Recipient: d.Recipient, Type: d.Type, Payload: d.Payload, MaxRetries: d.MaxRetries, Priority: d.Priority,
		TTL: d.TTL, IdempotencyKey: d.IdempotencyKey, ReplyTo: d.ReplyTo, Summary: d.Summary, Context: d.Context, Action: d.Action,
		ThreadID: d.ThreadID, SessionID: session, AckWithin: d.AckWithin, HoldUnknown: d.HoldUnknown,
		NotBefore: notBefore, Delay: d.Delay, ID: d.ID,
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

// FirstSend returns the result of an earlier send with the draft's idempotency key, or if it has none with its own id. found is
// false if there was none.
func (t *Tx) FirstSend(d *orchestrator.Draft) (sent orchestrator.Sent, found bool, err error) {
	if d.IdempotencyKey != "" {
		sent, found, err = t.firstResult(d)
	}
	if err != nil || found || d.ID == "" {
		return sent, found, err
	}
	return t.firstWithID(d)
}

// firstResult looks for an earlier send with the draft's idempotency key. Rows of earlier versions have a hash with the
// session, whether it was named or not.
func (t *Tx) firstResult(d *orchestrator.Draft) (sent orchestrator.Sent, found bool, err error) {
	var have, result string
	err = t.Query(`SELECT params_hash, result FROM idempotency WHERE sender = ? AND key = ?`, func(row store.Row) error {
		have, result, found = row.Text(0), row.Text(1), true
		return nil
	}, d.Sender, d.IdempotencyKey)
	switch {
	case err != nil || !found:
		return sent, false, err
	case have != ownHash(d) && have != hash(d, d.SessionID) && d.IdempotencyKey == d.ID:
		return sent, false, idTaken(d.ID) // nobody but us has called it a key
	case have != ownHash(d) && have != hash(d, d.SessionID):
		return sent, false, orchestrator.Errorf(orchestrator.Conflict, "the idempotency key %q was used by %s for another message", d.IdempotencyKey, d.Sender).
			WithHint("Use a new key for a new message")
	}
	if err := json.Unmarshal([]byte(result), &sent); err != nil {
		return sent, false, err
	}
	sent.Idempotent = true
	return sent, true, nil
}

// KeepResult stores the result of a send, for when it is repeated with the same idempotency key.
func (t *Tx) KeepResult(d *orchestrator.Draft, sent orchestrator.Sent) error {
	result, err := json.Marshal(sent)
	if err != nil {
		return err
	}
	_, err = t.Exec(`INSERT INTO idempotency (sender, key, params_hash, result, created_at) VALUES (?, ?, ?, ?, ?)`,
		d.Sender, d.IdempotencyKey, ownHash(d), string(result), t.Now)
	return err
}

// SentKey is an idempotency key and who used it.
type SentKey struct{ sender, key string }

// KeysIn lists the idempotency keys of the rows of temp.batch.
func (t *Tx) KeysIn(table string) (keys []SentKey, err error) {
	err = t.Query(`SELECT DISTINCT sender, idempotency_key FROM `+table+`
		WHERE seq IN (SELECT seq FROM temp.batch) AND idempotency_key IS NOT NULL`, func(row store.Row) error {
		keys = append(keys, SentKey{row.Text(0), row.Text(1)})
		return nil
	})
	return keys, err
}

// DropKeys forgets the idempotency keys whose last row has gone, archive included.
func (t *Tx) DropKeys(keys []SentKey) error {
	for _, k := range keys {
		if _, err := t.Exec(`
			DELETE FROM idempotency WHERE sender = ?1 AND key = ?2
			  AND NOT EXISTS (SELECT 1 FROM agent_message WHERE sender = ?1 AND idempotency_key = ?2)
			  AND NOT EXISTS (SELECT 1 FROM agent_message_archive WHERE sender = ?1 AND idempotency_key = ?2)`,
			k.sender, k.key); err != nil {
			return err
		}
	}
	return nil
}
