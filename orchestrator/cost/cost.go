// Package cost counts what messages put into the contexts of the models that work as an agent, and keeps what they are
// shown without asking within the setting budget.bytes.
package cost

import (
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// Way is how a message came into a context.
type Way string

// The ways.
const (
	wayHook   Way = "hook"   // shown by a hook, within the budget
	wayUrgent Way = "urgent" // shown by a hook, beyond it
	WayDigest Way = "digest" // named in a digest
	WayTool   Way = "tool"   // asked for by a tool
)

// Use is what messages of one sender and type put into a context.
type Use struct {
	Sender, Type string
	Way          Way
	Messages     int
	Bytes        int
}

// hour returns when the hour of a time begins.
func hour(at time.Time) string { return orchestrator.Stamp(at.UTC().Truncate(time.Hour)) }

// Renewed returns when the hour of the clock after a time begins, and with it a new budget.
func Renewed(at time.Time) time.Time { return at.UTC().Truncate(time.Hour).Add(time.Hour) }

// Note adds what was put into the context of an agent.
func Note(t *ledger.Tx, agent string, uses []Use) error {
	for i := range uses {
		u := &uses[i]
		if err := t.Run(`
			INSERT INTO context_use (agent, at, sender, message_type, way, messages, bytes) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
			ON CONFLICT (at, agent, sender, message_type, way) DO UPDATE SET messages = context_use.messages + excluded.messages,
				bytes = context_use.bytes + excluded.bytes`,
			agent, hour(t.Clock), u.Sender, u.Type, string(u.Way), u.Messages, u.Bytes); err != nil {
			return err
		}
	}
	return nil
}

// Clear deletes the use of the hours that had ended before a time, in the form of a stamp.
func Clear(t *ledger.Tx, before string) error {
	return t.Run(`DELETE FROM context_use WHERE at < ?`, hour(orchestrator.ParseStamp(before)))
}

// Forget deletes what is known of an agent.
func Forget(t *ledger.Tx, agent string) error {
	return t.Run(`DELETE FROM context_use WHERE agent = ?`, agent)
}

const (
	// around is how many bytes stand around the messages of an answer, or around the lines of a digest, at most.
	around = 600
	// MaxLine bounds the bytes of a line of a digest.
	MaxLine = 1000
	// framed is how many bytes stand around one message, and longest how many one takes in most answers, since what is
	// longer is cut.
	framed, longest = 500, 5000
	// forDigests is the part of a budget, one in so many, that is kept for digests.
	forDigests = 8
	// maxUrgent is how many urgent messages of one sender are shown to an agent beyond its budget in an hour.
	maxUrgent = 10
)

// Budget is what hooks may still show to the models of an agent in this hour of the clock.
type Budget struct {
	bounded bool
	left    int            // bytes, for messages
	digest  int            // bytes, for digests
	urgent  map[string]int // messages that were shown beyond it, by their sender
}

// Left returns what is left of an agent's budget at a time.
func Left(c *store.Conn, conf *ledger.Config, agent string, now time.Time) (Budget, error) {
	most := conf.Settings.BudgetBytes
	if most == 0 {
		return Budget{}, nil
	}
	b := Budget{bounded: true, left: most - most/forDigests, digest: most, urgent: map[string]int{}}
	err := c.Query(`SELECT sender, way, sum(messages), sum(bytes) FROM context_use WHERE agent = ? AND at = ? AND way <> '`+
		string(WayTool)+`' GROUP BY sender, way`, func(row store.Row) error {
		bytes := int(row.Int(3))
		switch way := Way(row.Text(1)); way {
		case wayUrgent:
			b.urgent[row.Text(0)] = int(row.Int(2))
		case wayHook:
			b.left -= bytes
			b.digest -= bytes
		case WayDigest:
			b.digest -= bytes
		}
		return nil
	}, agent, hour(now))
	b.left = max(0, min(b.left, b.digest))
	return b, err
}

// Spend returns the use of the messages, from the first on, that fit into the budget or pass beyond it, together with what
// stands around them. size is how many bytes one takes.
func (b Budget) Spend(ms []orchestrator.Message, size func(*orchestrator.Message) int) (uses []Use) {
	b.left -= around
	beyond := map[string]int{} // urgent messages by their sender
	for i := range ms {
		m := &ms[i]
		use := Use{Sender: m.Sender, Type: m.Type, Way: wayHook, Messages: 1, Bytes: size(m)}
		switch {
		case !b.bounded:
		case use.Bytes <= b.left:
			b.left -= use.Bytes
		case b.passes(m, beyond[m.Sender]):
			beyond[m.Sender]++
			use.Way = wayUrgent
		default:
			return uses
		}
		uses = append(uses, use)
	}
	return uses
}

// Allows reports whether something may still be shown of messages of a kind, the smallest of which has a payload of so many
// bytes, be it in a line of a digest. m has their sender, if they are urgent, their action and their priority.
func (b Budget) Allows(m *orchestrator.Message, smallest int) bool {
	return !b.bounded || b.left-around >= min(smallest+framed, longest) || b.digest-around >= MaxLine || b.passes(m, 0)
}

// passes reports whether a message may be shown beyond the budget, where an answer has so many others of its sender that
// do: an urgent one, and what the user says.
func (b Budget) passes(m *orchestrator.Message, others int) bool {
	return m.Sender == orchestrator.User || isUrgent(m) && b.urgent[m.Sender]+others < maxUrgent
}

// Passes reports whether a message, of which nothing is shown beside these uses, may be shown beyond the budget later.
func (b Budget) Passes(m *orchestrator.Message, beside []Use) bool {
	others := 0
	for i := range beside {
		if beside[i].Way == wayUrgent && beside[i].Sender == m.Sender {
			others++
		}
	}
	return b.passes(m, others)
}

// DigestRoom returns how many bytes the lines of a digest may take beside these uses.
func (b Budget) DigestRoom(uses []Use) int {
	room := b.digest - around
	for i := range uses {
		if uses[i].Way != wayUrgent {
			room -= uses[i].Bytes
		}
	}
	return room
}

// isUrgent reports whether a message is urgent.
func isUrgent(m *orchestrator.Message) bool {
	return m.Action == "interrupt" || orchestrator.PriorityWord(m.Priority) == "urgent"
}
