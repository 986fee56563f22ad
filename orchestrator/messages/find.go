package messages

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// FindIn returns, within a transaction, the messages that an id identifies: one message, all messages of a send to a
// group, or a post and its mentions. It returns no error if there are none.
func FindIn(c *store.Conn, id string) ([]orchestrator.Message, error) {
	ms, err := ledger.Messages(c, `SELECT `+ledger.MessageColumns+` FROM agent_message WHERE message_id = ?`, id)
	if err != nil || len(ms) > 0 && !ms[0].IsPost() {
		return ms, err
	}
	if ms, err = sentTogether(c, id); err != nil || len(ms) > 0 {
		return ms, err
	}
	return ledger.Messages(c, `SELECT `+ledger.ArchivedColumns+` FROM agent_message_archive WHERE message_id = ?`, id)
}

// sentTogether returns the messages of one send to several agents, or a post and its copies, including archived ones.
// They are in the order in which they were stored.
func sentTogether(c *store.Conn, id string) (ms []orchestrator.Message, err error) {
	for _, from := range []string{ledger.MessageColumns + ` FROM agent_message`,
		ledger.ArchivedColumns + ` FROM agent_message_archive`} {
		found, err := ledger.Messages(c, `SELECT `+from+` WHERE multicast_id = ? ORDER BY seq`, id)
		if err != nil {
			return nil, err
		}
		ms = append(ms, found...)
	}
	slices.SortFunc(ms, func(a, b orchestrator.Message) int { return cmp.Compare(a.Seq, b.Seq) })
	return ms, nil
}

// FindOwn returns the messages that an id identifies and that the agent by has sent or received, or all of them if by
// is "". For a send to a group, a member gets its own message. Error: not_found. The error is the same whether the id
// does not exist or all its messages belong to others, so that a stranger cannot learn whether an id exists or who
// uses it.
func FindOwn(c *store.Conn, conf *ledger.Config, id, by string) ([]orchestrator.Message, error) {
	ms, err := FindIn(c, id)
	if by != "" {
		ms = slices.DeleteFunc(ms, func(m orchestrator.Message) bool { return !conf.Owns(&m, by) })
	}
	if err == nil && len(ms) == 0 {
		err = NoMessage(id)
	}
	return ms, err
}

// NoMessage returns the not_found error for the id of a message that does not exist or that the caller may not see.
func NoMessage(id string) error {
	return orchestrator.Errorf(orchestrator.NotFound, "there is no message %q", orchestrator.Clip(id)).
		WithHint("To list the messages that an agent sent or received, run `mailroom list`")
}

// Find returns the messages that an id identifies: one message, all messages of a send to a group, or a post and its
// mentions. It includes archived messages. Error: not_found.
func Find(ctx context.Context, l *ledger.Ledger, id string) ([]orchestrator.Message, error) {
	return ledger.ReadValue(ctx, l,
		func(c *store.Conn) ([]orchestrator.Message, error) { return FindOwn(c, nil, id, "") })
}

// AnsweredBefore reports whether the sender of a message had answered the same message earlier. It also considers
// archived answers.
func AnsweredBefore(c *store.Conn, m *orchestrator.Message) (bool, error) {
	const before = `SELECT 1 FROM %s WHERE reply_to = ?1 AND +sender = ?2 AND seq < ?3`
	n, err := c.Number(`SELECT EXISTS (`+fmt.Sprintf(before, "agent_message")+`) OR EXISTS (`+
		fmt.Sprintf(before, "agent_message_archive")+`)`,
		m.ReplyTo, m.Sender, m.Seq)
	return n > 0, err
}
