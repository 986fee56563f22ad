package messages

import (
	"context"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// minEnding is the minimum length of an id's ending that identifies the id.
const minEnding = 4

// EndingWith returns the messages whose ids end with a text, ignoring case, newest first and at most limit of them.
// It includes archived messages. It returns only messages that the agent by has sent or received, or all if by is "".
// The text must consist of letters, digits and '-', and have at least four characters; for any other text the result
// is empty.
func EndingWith(ctx context.Context, l *ledger.Ledger, by, ending string, limit int) (found []orchestrator.Message,
	err error) {
	if len(ending) < minEnding || strings.Trim(ending, "-"+orchestrator.Alphanumeric) != "" {
		return nil, nil
	}
	const ends = ` WHERE upper(message_id) LIKE ?1 ORDER BY seq DESC`
	err = l.View(ctx, func(c *store.Conn, conf *ledger.Config) error {
		found = nil
		for _, from := range []string{ledger.MessageColumns + ` FROM agent_message` + ends,
			ledger.ArchivedColumns + ` FROM agent_message_archive` + ends} {
			ms, err := ledger.Messages(c, `SELECT `+from, "%"+strings.ToUpper(ending))
			if err != nil {
				return err
			}
			for i := range ms {
				if len(found) < limit && (by == "" || conf.Owns(&ms[i], by)) {
					found = append(found, ms[i])
				}
			}
		}
		return nil
	})
	return found, err
}

// Newest returns the newest message that the agent by has sent or received, or of all agents if by is "". found
// reports whether there is one. Transport tests are ignored. is selects the messages to consider; nil selects all.
func Newest(ctx context.Context, l *ledger.Ledger, by string,
	is func(*orchestrator.Message) bool) (m orchestrator.Message, found bool, err error) {
	s := Search{Agent: by, Limit: 1, Says: func(m *orchestrator.Message) bool {
		return m.Type != orchestrator.TestMessage && (is == nil || is(m))
	}}
	for {
		r, err := SearchOwn(ctx, l, s)
		switch {
		case err != nil:
			return m, false, err
		case len(r.Messages) > 0:
			return r.Messages[0], true, nil
		case r.Complete:
			return m, false, nil
		}
		s.From = r.Next
	}
}
