// Package transport implements the ways in which a message leaves the engine, one file each.
package transport

import (
	"context"
	"errors"
	"slices"

	"mailroom/orchestrator"
)

// Inbox is the transport into the table agent_inbox. It delivers within the transaction that claims and settles the
// messages, so delivery is exactly-once by construction. Its address is empty: `--deliver inbox`.
type Inbox struct{}

// Check accepts only the empty address.
func (Inbox) Check(address string) (string, error) {
	if address != "" {
		return "", errors.New("the inbox transport does not take an address; write only `inbox`")
	}
	return "", nil
}

// MaxBatch returns the largest set of one transaction.
func (Inbox) MaxBatch() int { return 1000 }

// Deliver is never called: the engine uses DeliverSet.
func (Inbox) Deliver(_ context.Context, a orchestrator.Attempt) []error {
	return slices.Repeat([]error{errors.New("the inbox transport delivers only in sets")}, len(a.Messages))
}

// DeliverSet copies the messages of temp.batch into agent_inbox, in the order in which they are to be read. It
// leaves a message unchanged that is already there because somebody reset its row by hand.
func (Inbox) DeliverSet(exec func(query string, args ...any) error, at string) error {
	return exec(`
		INSERT INTO agent_inbox (recipient, message_id, payload, delivered_at)
		SELECT recipient, message_id, payload, ? FROM agent_message
		WHERE seq IN (SELECT seq FROM temp.batch) ORDER BY priority DESC, seq
		ON CONFLICT (message_id, recipient) DO NOTHING`, at)
}

// DeliverRead copies a message into agent_inbox as already read. The message must not be there yet.
func (Inbox) DeliverRead(exec func(query string, args ...any) error, seq int64, at string) error {
	return exec(`
		INSERT INTO agent_inbox (recipient, message_id, payload, delivered_at, read_at)
		SELECT recipient, message_id, payload, ?1, ?1 FROM agent_message WHERE seq = ?2`, at, seq)
}
