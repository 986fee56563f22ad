// Package cost counts the bytes that messages add to the contexts of the models that work as an agent. It keeps
// what the models are shown without asking within the setting budget.bytes.
package cost

import (
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// Way is the way in which a message came into a context.
type Way string

// The ways.
const (
	wayHook   Way = "hook"   // shown by a hook, within the budget
	wayUrgent Way = "urgent" // shown by a hook, beyond the budget
	WayDigest Way = "digest" // listed in a digest
	WayTool   Way = "tool"   // asked for by a tool
)

// Use is what messages of one sender and type add to a context.
type Use struct {
	Sender, Type string
	Way          Way
	Messages     int
	Bytes        int
}

// hour returns the start of the hour that contains a time.
func hour(at time.Time) string { return orchestrator.Stamp(at.UTC().Truncate(time.Hour)) }

// Renewed returns the start of the next hour of the clock, when the budget is renewed.
func Renewed(at time.Time) time.Time { return at.UTC().Truncate(time.Hour).Add(time.Hour) }

// Note records what was added to the context of an agent.
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

// Clear deletes the use of the hours before the one that contains a time, given as a stamp.
func Clear(t *ledger.Tx, before string) error {
	return t.Run(`DELETE FROM context_use WHERE at < ?`, hour(orchestrator.ParseStamp(before)))
}

// Forget deletes the records of an agent.
func Forget(t *ledger.Tx, agent string) error {
	return t.Run(`DELETE FROM context_use WHERE agent = ?`, agent)
}

const (
	// around is the maximum number of bytes around the messages of an answer, or around the lines of a digest.
	around = 600
	// MaxLine is the maximum length of a line of a digest, in bytes.
	MaxLine = 1000
	// framed is the number of bytes around one message. longest is the number of bytes that one message takes in
	// most answers, because longer messages are cut.
	framed, longest = 500, 5000
	// forDigests is the divisor of the part of a budget that is reserved for digests.
	forDigests = 8
	// maxUrgent is how many urgent messages of one sender are shown to an agent beyond its budget in an hour.
	maxUrgent = 10
)

// Budget is what hooks may still show to an agent's models in this hour of the clock.
type Budget struct {
	bounded bool
	left    int            // bytes, for messages
	digest  int            // bytes, for digests
	urgent  map[string]int // messages shown beyond the budget, by sender
}

// Left returns the remainder of an agent's budget at a time.
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

// Spend returns the uses of the messages, counted from the first, that fit into the budget or pass beyond it,
// allowing for the bytes around them. size returns the number of bytes that a message takes.
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

// Allows reports whether any message of a kind may still be shown, at least in a line of a digest. smallest is the
// size of the smallest payload among these messages, in bytes. m holds their sender (if they are urgent), action
// and priority.
func (b Budget) Allows(m *orchestrator.Message, smallest int) bool {
	return !b.bounded || b.left-around >= min(smallest+framed, longest) || b.digest-around >= MaxLine || b.passes(m, 0)
}

// passes reports whether a message may be shown beyond the budget: an urgent message, or one from the user. others
// is the number of the sender's messages in the same answer that already pass.
func (b Budget) passes(m *orchestrator.Message, others int) bool {
	return m.Sender == orchestrator.User || isUrgent(m) && b.urgent[m.Sender]+others < maxUrgent
}

// Passes reports whether a message that is not shown beside these uses may be shown beyond the budget later.
func (b Budget) Passes(m *orchestrator.Message, beside []Use) bool {
	others := 0
	for i := range beside {
		if beside[i].Way == wayUrgent && beside[i].Sender == m.Sender {
			others++
		}
	}
	return b.passes(m, others)
}

// DigestRoom returns the number of bytes that the lines of a digest may take beside these uses.
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
