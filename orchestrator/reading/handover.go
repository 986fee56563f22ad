package reading

import (
	"slices"

	"mailroom/orchestrator"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
)

// maxHandOver is how many messages handOver takes at most.
const maxHandOver = 8

// handOver delivers what is due to a recipient and marks it as read, message by message, in half the statements that
// deliverForReading and readUnread take for a few: a waiter that was just rung for one message has them all cold. It
// leaves the same rows. It does nothing unless that is all there is to read: nothing unread stands in the inbox, and no
// more is due than may be read at once, by count and by size. A row that cannot be delivered is left to deliverForReading,
// too.
func handOver(t *ledger.Tx, recipient string, limit int) ([]orchestrator.Message, error) {
	inbox := t.Ledger.Inbox()
	if inbox == nil || t.Config().Agents[recipient] == nil {
		return nil, nil
	}
	limit = min(limit, maxHandOver)
	ms, err := ledger.Messages(t.Conn, `
		SELECT `+ledger.MessageColumns+` FROM agent_message m
		WHERE `+ledger.Takeable+`
		  AND NOT EXISTS (SELECT 1 FROM agent_inbox WHERE recipient = ?2 AND read_at = '')
		ORDER BY priority DESC, seq LIMIT +?3`, t.ClockText, recipient, limit+1)
	if err != nil || len(ms) == 0 || len(ms) > limit {
		return nil, err
	}
	size := 0
	for i := range ms {
		size += len(ms[i].Payload)
	}
	if len(ms) > 1 && size > ledger.MaxRead {
		return nil, nil
	}
	fault, err := t.ChangeRows(func() error {
		for i := range ms {
			if err := delivery.HandOne(t, &ms[i], inbox); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || fault != nil {
		return nil, err
	}
	slices.SortStableFunc(ms, func(a, b orchestrator.Message) int { return interruptsFirst(&a) - interruptsFirst(&b) })
	return ms, nil
}

// interruptsFirst sorts messages whose action is an interrupt before others, as ReadingOrder does.
func interruptsFirst(m *orchestrator.Message) int {
	if m.Action == "interrupt" {
		return 0
	}
	return 1
}
