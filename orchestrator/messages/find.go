package messages

import (
	"cmp"
	"context"
	"slices"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// FindMessages returns the rows that an id names: one message, or all of a send to a group, or a post and its mentions.
// Rows that retention has archived are found too.
func FindMessages(c *store.Conn, id string) ([]orchestrator.Message, error) {
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

// MustFind returns the messages that an id names; see FindMessages. Error: not_found when there are none.
func MustFind(c *store.Conn, id string) ([]orchestrator.Message, error) {
	ms, err := FindMessages(c, id)
	if err != nil {
		return nil, err
	}
	if len(ms) == 0 {
		return nil, NoMessage(id)
	}
	return ms, nil
}

// MustFindOwn returns what an id names to an agent that sent or received it. For anybody else there is no such message: an
// error must not tell a stranger that an id is taken, or by whom. Of a send to a group a member finds its own message. "" finds
// all. Error: not_found.
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

// NoMessage is the error for an id that names no message, or none that whoever asks may know of.
func NoMessage(id string) error {
	return orchestrator.Errorf(orchestrator.NotFound, "there is no message %q", orchestrator.Clip(id)).
		WithHint("`mailroom mail search_messages` finds what an agent has sent or got; " +
			"`mailroom sql \"SELECT message_id, recipient, status FROM agent_message ORDER BY seq DESC LIMIT 10\"` lists the latest")
}

// Find returns the messages that an id names; see FindMessages. Error: not_found.
func Find(ctx context.Context, l *ledger.Ledger, id string) (ms []orchestrator.Message, err error) {
	err = l.ReadTables(ctx, func(c *store.Conn) error {
		ms, err = MustFind(c, id)
		return err
	})
	return ms, err
}
