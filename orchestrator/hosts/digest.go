package hosts

import (
	"context"
	"slices"

	"mailroom/orchestrator"
	"mailroom/orchestrator/cost"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// Group is unread messages of one sender, type and thread that a digest names in one line.
type Group struct {
	Newest   orchestrator.Message
	Messages int
	Bytes    int64 // of their payloads
}

// Digest names unread messages that are not shown, since the budget of the agent is used up: see package cost. They stay
// unread, and are named once in a session.
type Digest struct {
	Lines    []string
	Messages int
	Others   int // of the messages that no line names

	upTo int64 // the greatest seq
}

// maxLines bounds the lines of a digest.
const maxLines = 20

// digest names what is unread and was not named in the session before, in at most room bytes less what a takes already.
// Without room for a line it names nothing, and a later event tries again.
func digest(ctx context.Context, l *ledger.Ledger, e *Event, room int, a *Answer) error {
	before := a.uses
	return l.Look(ctx, func(c *store.Conn) error {
		room, uses := cost.Room(room, before), slices.Clone(before)
		var groups []Group
		var d Digest
		if err := c.Query(`
			SELECT max(m.seq), count(*), sum(octet_length(m.payload)) FROM agent_inbox i
			JOIN agent_message m ON m.message_id = i.message_id AND m.recipient = i.recipient
			WHERE i.recipient = ?1 AND i.read_at = '' AND `+ledger.Untold(`?2`)+`
			GROUP BY m.sender, m.message_type, m.thread_id ORDER BY max(m.priority) DESC, max(m.seq) DESC`,
			func(row store.Row) error {
				g := Group{Newest: orchestrator.Message{Seq: row.Int(0)}, Messages: int(row.Int(1)), Bytes: row.Int(2)}
				d.upTo, d.Messages = max(d.upTo, g.Newest.Seq), d.Messages+g.Messages
				if len(groups) < maxLines {
					groups = append(groups, g)
				}
				return nil
			}, e.Agent, e.Session); err != nil {
			return err
		}
		d.Others = d.Messages
		for i := range groups {
			g := &groups[i]
			ms, err := ledger.Messages(c, `SELECT `+ledger.MessageColumns+` FROM agent_message WHERE seq = ?`, g.Newest.Seq)
			if err != nil {
				return err
			}
			if len(ms) == 0 {
				continue // read and cleared away meanwhile
			}
			g.Newest = ms[0]
			line := e.Line(g)
			if len(line) > room {
				continue
			}
			room, d.Others = room-len(line), d.Others-g.Messages
			d.Lines = append(d.Lines, line)
			uses = append(uses, cost.Use{Sender: g.Newest.Sender, Type: g.Newest.Type, Way: cost.Digest,
				Messages: g.Messages, Bytes: len(line)})
		}
		if len(d.Lines) > 0 {
			a.Digest, a.uses = d, uses
		}
		return nil
	})
}
