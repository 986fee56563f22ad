package overview

import (
	"fmt"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/cost"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// An agent has too little effect if it has put at least manyBytes into the context of another agent within
// effectTime, by at least manyMessages messages, and fewer than one message in fewest was answered, acknowledged, or
// followed within followTime by any message from the other agent.
const (
	effectTime   = 24 * time.Hour
	manyBytes    = 16 << 10
	manyMessages = 20
	fewest       = 10
	followTime   = 10 * time.Minute
)

// checkEffect finds the agents that cost another agent the most with the least effect.
func checkEffect(x *examination) error {
	list, err := cost.Pairs(x.c, x.now.Add(-effectTime), manyMessages, manyBytes, mostOfEach)
	if err != nil {
		return err
	}
	for _, of := range list {
		if from, to := x.members[of.Sender], x.members[of.Recipient]; from == nil || to == nil || from.BuiltIn || to.BuiltIn {
			continue
		}
		n, effects, err := x.effects(&of)
		if err != nil {
			return err
		}
		if n < manyMessages || effects*fewest >= n {
			continue
		}
		x.add(Finding{
			About: of.Sender + " to " + of.Recipient, Level: Note, Count: int64(n), From: []string{of.Sender},
			Says: fmt.Sprintf("Within a day, %s added %d bytes (about %d tokens) to the context of %s with little effect", of.Sender,
				of.Bytes, of.Tokens, of.Recipient),
			Because: fmt.Sprintf("the recipient read %d messages, and only %d were answered, acknowledged, or followed by a message from the recipient", n, effects),
			Do: fmt.Sprintf("Have %s send less. To see the bytes by type, run `mailroom stats %s`. To lower the limit for all agents, run `mailroom setting set budget.bytes BYTES`", of.Sender,
				of.Recipient),
		})
	}
	return nil
}

// effects counts the messages of a pair that were read, and those that had an effect. It walks through all messages
// that the two agents sent, so it is called for a few pairs at most.
func (s *snapshot) effects(of *cost.Pair) (n, effects int, err error) {
	since := orchestrator.Stamp(s.now.Add(-effectTime))
	sent, err := s.c.Texts(`SELECT created_at FROM agent_message WHERE sender = ?1 AND created_at >= ?2 AND `+ledger.Past+`
		UNION ALL SELECT created_at FROM agent_message WHERE sender = ?1 AND created_at >= ?2 AND `+ledger.Live+`
		ORDER BY 1`, of.Recipient, since)
	if err != nil {
		return 0, 0, err
	}
	err = s.c.Query(`SELECT m.read_at, m.acknowledged_at, EXISTS (SELECT 1 FROM agent_message r WHERE r.reply_to = m.message_id AND r.sender = ?2)
		FROM agent_message m WHERE m.sender = ?1 AND m.`+ledger.Past+` AND m.recipient = ?2 AND m.created_at >= ?3 AND m.read_at <> ''
		ORDER BY m.read_at`, func(row store.Row) error {
		n++
		read := row.Text(0)
		for len(sent) > 0 && sent[0] < read {
			sent = sent[1:]
		}
		follows := len(sent) > 0 && sent[0] <= orchestrator.Stamp(orchestrator.ParseStamp(read).Add(followTime))
		if follows || row.Text(1) != "" || row.Int(2) != 0 {
			effects++
		}
		return nil
	}, of.Sender, of.Recipient, since)
	return n, effects, err
}
