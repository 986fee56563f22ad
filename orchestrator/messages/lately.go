package messages

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// Limits on how far LatelyOf looks back, and on how much it returns.
const (
	latest     = 5000 // newest messages examined
	mostPeers  = 25
	mostLatest = 10
)

// Lately lists an agent's correspondents among the newest messages of all agents.
type Lately struct {
	Among      int      `json:"among"`      // number of messages examined, of all senders
	Senders    []Peer   `json:"senders"`    // agents that wrote to it, the most active first
	Recipients []Peer   `json:"recipients"` // agents to which it wrote
	Newest     []Letter `json:"newest"`     // newest messages to it and from it
}

// Peer counts the messages between an agent and another one, in one direction.
type Peer struct {
	Agent    string `json:"agent"`
	Messages int    `json:"messages"`
	Failed   int    `json:"failed"` // number of dead letters among them
	LastAt   string `json:"last_at"`
}

// Letter is a message without its content.
type Letter struct {
	MessageID string              `json:"message_id"`
	Sender    string              `json:"sender"`
	Recipient string              `json:"recipient"`
	Type      string              `json:"message_type"`
	Status    orchestrator.Status `json:"status"`
	CreatedAt string              `json:"created_at"`
}

// LatelyOf returns an agent's recent correspondents. It examines only the newest messages of all agents, so that its
// cost does not depend on the number of messages.
func LatelyOf(ctx context.Context, l *ledger.Ledger, agent string) (r Lately, err error) {
	letters := []Letter{}
	err = l.Read(ctx, func(c *store.Conn) error {
		last, err := c.Number(`SELECT coalesce(max(seq), 0) FROM agent_message`)
		if err != nil {
			return err
		}
		r.Among = int(min(last, latest))
		letters, err = store.List(c, func(row store.Row) Letter {
			return Letter{row.Text(0), row.Text(1), row.Text(2), row.Text(3), orchestrator.Status(row.Text(4)),
				row.Text(5)}
		}, `SELECT message_id, sender, recipient, coalesce(message_type, ''), coalesce(status, ''),
			coalesce(created_at, '') FROM agent_message
			WHERE seq > ?2 AND (+sender = ?1 OR +recipient = ?1) ORDER BY seq DESC`, agent, last-latest)
		return err
	})
	r.Newest = letters[:min(mostLatest, len(letters))]
	r.Senders = peers(letters, func(m *Letter) (string, bool) { return m.Sender, m.Recipient == agent })
	r.Recipients = peers(letters, func(m *Letter) (string, bool) {
		return m.Recipient, m.Sender == agent && !strings.HasPrefix(m.Recipient, orchestrator.ThreadPrefix)
	})
	return r, err
}

// peers counts messages by the agent that peer returns. It skips messages for which counts is false.
func peers(letters []Letter, peer func(*Letter) (name string, counts bool)) []Peer {
	by := map[string]*Peer{}
	list := []*Peer{}
	for i := range letters {
		m := &letters[i]
		name, counts := peer(m)
		if !counts {
			continue
		}
		p := by[name]
		if p == nil {
			p = &Peer{Agent: name, LastAt: m.CreatedAt}
			by[name], list = p, append(list, p)
		}
		p.Messages++
		if m.Status == orchestrator.Failed || m.Status == orchestrator.Expired {
			p.Failed++
		}
	}
	slices.SortStableFunc(list, func(a, b *Peer) int { return cmp.Compare(b.Messages, a.Messages) })
	found := make([]Peer, min(mostPeers, len(list)))
	for i := range found {
		found[i] = *list[i]
	}
	return found
}
