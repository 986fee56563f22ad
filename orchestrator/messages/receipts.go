package messages

import (
	"cmp"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// Receipt says that something happened to a message, when, and which column shows it. There are receipts only for what is
// certain. Source: dialects.md, "All of them".
type Receipt struct {
	What     string `json:"what"` // created, delivered, shown (and not confirmed yet), read, acknowledged, answered
	At       string `json:"at"`
	Evidence string `json:"evidence"`
}

// ReceiptsOf returns the receipts of one message, within a transaction.
func ReceiptsOf(c *store.Conn, m *orchestrator.Message) ([]Receipt, error) {
	list := []Receipt{}
	add := func(what, at, evidence string) {
		if at != "" {
			list = append(list, Receipt{what, at, evidence})
		}
	}
	add("created", m.CreatedAt, "agent_message.created_at")
	add("delivered", m.DeliveredAt, "agent_message.delivered_at")
	lease, err := LeaseOf(c, m)
	if err != nil {
		return nil, err
	}
	if lease != nil {
		add("shown", lease.At, "reading_lease.shown_at")
	}
	add("read", m.ReadAt, "agent_message.read_at")
	add("acknowledged", m.AcknowledgedAt, "agent_message.acknowledged_at")
	var by any = m.Recipient
	if m.IsPost() {
		by = nil // whoever takes part answers the post itself
	}
	err = c.Query(`
		SELECT message_id, created_at FROM agent_message WHERE reply_to IN (?1, ?3) AND (sender = ?2 OR ?2 IS NULL)
		UNION ALL SELECT message_id, created_at FROM agent_message_archive WHERE reply_to IN (?1, ?3) AND (sender = ?2 OR ?2 IS NULL)
		ORDER BY 2 LIMIT 1`, func(row store.Row) error {
		add("answered", row.Text(1), "reply_to of "+row.Text(0))
		return nil
	}, m.ID, by, cmp.Or(m.MulticastID, m.ID))
	return list, err
}
