package hosts

import (
	"cmp"
	"context"
	"slices"
	"strings"

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

	ids      []string
	priority int // the highest
}

// Digest names unread messages that are not shown, since the budget of the agent is used up: see package cost. They stay
// unread, and are named once in a session.
type Digest struct {
	Lines []string
	Named int // messages that the lines name
	Left  int // those that do not fit, and are named later

	ids []string // of the former
}

const (
	// maxLines bounds the lines of a digest.
	maxLines = 20
	// mostAlone and mostBeside bound its bytes, without and beside messages: hosts cut an answer of more than 10,000.
	mostAlone, mostBeside = 6000, 1500
)

// digest names what is unread and was not named in the session before, as far as the budget has room for that beside
// what a takes already.
func digest(ctx context.Context, l *ledger.Ledger, e *Event, budget *cost.Budget, a *Answer) error {
	before := a.uses
	return l.Look(ctx, func(c *store.Conn) error {
		passes := func(m *orchestrator.Message) bool { return budget.Passes(m, before) }
		groups, err := untold(c, e, passes)
		if err != nil {
			return err
		}
		room, uses := min(budget.DigestRoom(before), mostAlone), slices.Clone(before)
		if len(a.Messages) > 0 {
			room = min(room, mostBeside)
		}
		var d Digest
		for _, g := range groups {
			if d.Left += g.Messages; len(d.Lines) == maxLines {
				continue
			}
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
			room -= len(line)
			d.Lines, d.ids = append(d.Lines, line), append(d.ids, g.ids...)
			d.Named, d.Left = d.Named+g.Messages, d.Left-g.Messages
			uses = append(uses, cost.Use{Sender: g.Newest.Sender, Type: g.Newest.Type, Way: cost.WayDigest,
				Messages: g.Messages, Bytes: len(line)})
		}
		if len(d.Lines) > 0 {
			a.Digest, a.uses = d, uses
		}
		return nil
	})
}

// untold returns what is unread and was not named in the session before, in groups: those with the highest priority
// first, and of these the newest. It leaves out what passes beyond the budget, and is shown with a later event.
func untold(c *store.Conn, e *Event, passes func(*orchestrator.Message) bool) (groups []*Group, err error) {
	type kind struct{ sender, messageType, thread string }
	found := map[kind]*Group{}
	err = c.Query(`
		SELECT m.seq, m.message_id, m.sender, m.message_type, m.thread_id, m.priority, octet_length(m.payload), m.action FROM agent_inbox i
		JOIN agent_message m ON m.message_id = i.message_id AND m.recipient = i.recipient
		WHERE i.recipient = ?1 AND i.read_at = '' AND `+ledger.Untold(`?2`), func(row store.Row) error {
		of := kind{row.Text(2), row.Text(3), row.Text(4)}
		if passes(&orchestrator.Message{Sender: of.sender, Priority: int(row.Int(5)), Action: row.Text(7)}) {
			return nil
		}
		g := found[of]
		if g == nil {
			g = &Group{priority: int(row.Int(5))}
			found[of], groups = g, append(groups, g)
		}
		g.Newest.Seq, g.priority = max(g.Newest.Seq, row.Int(0)), max(g.priority, int(row.Int(5)))
		g.Messages, g.Bytes, g.ids = g.Messages+1, g.Bytes+row.Int(6), append(g.ids, row.Text(1))
		return nil
	}, e.Agent, told(e.Session))
	slices.SortFunc(groups, func(a, b *Group) int {
		return cmp.Or(b.priority-a.priority, cmp.Compare(b.Newest.Seq, a.Newest.Seq))
	})
	return groups, err
}

// told is the name of a session as it stands in agent_inbox.told_in, between spaces.
func told(session string) string { return strings.ReplaceAll(session, " ", "_") }

// noteTold notes that the lines of a digest were written in a session.
func (d *Digest) noteTold(t *ledger.Tx, agent, session string) error {
	for _, id := range d.ids {
		if err := t.Run(`UPDATE agent_inbox AS i SET told_in = CASE told_in WHEN '' THEN ' ' ELSE told_in END || ?2 || ' '
			WHERE recipient = ?1 AND message_id = ?3 AND read_at = '' AND `+ledger.Untold(`?2`), agent, told(session), id); err != nil {
			return err
		}
	}
	return nil
}
