package ledger

import (
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// WasRefused reports whether a message is a dead letter because its recipient or its sender was unknown.
func WasRefused(m *orchestrator.Message) bool {
	return m.Status == orchestrator.Failed &&
		(strings.HasPrefix(m.Error, string(orchestrator.UnknownRecipient)+": ") || LackedSender(m.Error))
}

// LackedSender reports whether an error of a failed message means that its sender was unknown.
func LackedSender(failure string) bool {
	return strings.HasPrefix(failure, string(orchestrator.UnknownSender)+": ")
}

// SentKey is an idempotency key together with the sender that used it.
type SentKey struct{ sender, key string }

// KeysIn returns the idempotency keys of those rows of a table that are listed in temp.batch.
func (t *Tx) KeysIn(table string) (keys []SentKey, err error) {
	err = t.Query(`SELECT DISTINCT sender, idempotency_key FROM `+table+`
		WHERE seq IN (SELECT seq FROM temp.batch) AND idempotency_key IS NOT NULL`, func(row store.Row) error {
		keys = append(keys, SentKey{row.Text(0), row.Text(1)})
		return nil
	})
	return keys, err
}

// DropKeys deletes the idempotency keys that no row uses any more, neither in the table nor in the archive.
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
