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

// Group is a set of unread messages with one sender, type and thread. A digest lists a group in one line.
type Group struct {
	Newest   orchestrator.Message
	Messages int
	Bytes    int64 // of the payloads

	ids      []string
	priority int // the highest of the messages
}

// Digest lists unread messages that are not shown because the agent's budget is used up; see package cost. They
// stay unread, and a session lists each of them once.
type Digest struct {
	Lines []string
	Named int // messages that the lines cover
	Left  int // messages that did not fit; a later digest lists them

	ids []string // of the Named messages
}

const (
	// maxLines is the maximum number of lines in a digest.
	maxLines = 20
	// mostAlone and mostBeside are the maximum sizes of a digest in bytes, without and with messages beside it.
	// Hosts cut an answer of more than 10,000 bytes.
	mostAlone, mostBeside = 6000, 1500
)

// digest lists the unread messages that the session has not listed before, as far as the budget allows beside what
// a already uses.
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
				continue // read and cleared meanwhile
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

// untold returns the unread messages that the session has not listed before, in groups, sorted by highest priority
// and then by newest message. It leaves out messages that pass beyond the budget, because a later event shows them.
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

// told returns the form of a session's name in agent_inbox.told_in, where spaces separate the names.
func told(session string) string { return strings.ReplaceAll(session, " ", "_") }

// noteTold records that a session has listed the messages of the digest.
func (d *Digest) noteTold(t *ledger.Tx, agent, session string) error {
	for _, id := range d.ids {
		if err := t.Run(`UPDATE agent_inbox AS i SET told_in = CASE told_in WHEN '' THEN ' ' ELSE told_in END || ?2 || ' '
			WHERE recipient = ?1 AND message_id = ?3 AND read_at = '' AND `+ledger.Untold(`?2`), agent, told(session), id); err != nil {
			return err
		}
	}
	return nil
}
