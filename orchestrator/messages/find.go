package messages

import (
	"cmp"
	"context"
	"slices"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// FindIn is Find within a transaction; it returns no messages and no error if there are none.
func FindIn(c *store.Conn, id string) ([]orchestrator.Message, error) {
	ms, err := ledger.Messages(c, `SELECT `+ledger.MessageColumns+` FROM agent_message WHERE message_id = ?`, id)
	if err != nil || len(ms) > 0 && !ms[0].IsPost() {
		return ms, err
	}
	ms = nil
	for _, from := range []string{ledger.MessageColumns + ` FROM agent_message`, ledger.ArchivedColumns + ` FROM agent_message_archive`} {
		found, err := ledger.Messages(c, `SELECT `+from+` WHERE multicast_id = ? ORDER BY seq`, id)
		if err != nil {
			return nil, err
		}
		ms = append(ms, found...)
	}
	if len(ms) > 0 {
		slices.SortFunc(ms, func(a, b orchestrator.Message) int { return cmp.Compare(a.Seq, b.Seq) })
		return ms, nil
	}
	return ledger.Messages(c, `SELECT `+ledger.ArchivedColumns+` FROM agent_message_archive WHERE message_id = ?`, id)
}

// MustFind is FindIn that fails with not_found if there are none.
func MustFind(c *store.Conn, id string) ([]orchestrator.Message, error) {
	ms, err := FindIn(c, id)
	if err != nil {
		return nil, err
	}
	if len(ms) == 0 {
		return nil, NoMessage(id)
	}
	return ms, nil
}

// MustFindOwn returns those messages that an id stands for which the agent by has sent or got; "" gets all. Of a send to a
// group a member gets its own message. If there are none the error is the same not_found as for an id that does not exist,
// since a stranger must not learn that an id is taken, or by whom.
func MustFindOwn(c *store.Conn, conf *ledger.Config, id, by string) ([]orchestrator.Message, error) {
	ms, err := MustFind(c, id)
	if err != nil || by == "" {
		return ms, err
	}
	own := slices.DeleteFunc(ms, func(m orchestrator.Message) bool { return !conf.Owns(&m, by) })
	if len(own) == 0 {
		return nil, NoMessage(id)
	}
	return own, nil
}

// NoMessage returns the not_found error for the id of a message that does not exist, or that whoever asks may not see.
func NoMessage(id string) error {
	return orchestrator.Errorf(orchestrator.NotFound, "there is no message %q", orchestrator.Clip(id)).
		WithHint("`mailroom mail search_messages` finds what an agent has sent or got; " +
			"`mailroom sql \"SELECT message_id, recipient, status FROM agent_message ORDER BY seq DESC LIMIT 10\"` lists the latest")
}

// Find returns the messages that an id stands for: one message, all of a send to a group, or a post and its mentions. It finds
// archived ones, too. Error: not_found.
func Find(ctx context.Context, l *ledger.Ledger, id string) (ms []orchestrator.Message, err error) {
	err = l.Read(ctx, func(c *store.Conn) error {
		ms, err = MustFind(c, id)
		return err
	})
	return ms, err
}
