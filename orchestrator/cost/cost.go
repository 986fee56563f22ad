// Package cost counts what messages put into the contexts of the models that work as an agent. It keeps the messages
// that hooks show unasked within the setting budget.bytes.
package cost

import (
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// Way is the way in which a message entered a context.
type Way string

// The ways.
const (
	wayHook   Way = "hook"   // shown by a hook, within the budget
	wayUrgent Way = "urgent" // shown by a hook, beyond the budget
	WayDigest Way = "digest" // named in a digest
	WayTool   Way = "tool"   // requested by a tool
)

// Use counts what the messages of one sender and type put into a context.
type Use struct {
	Sender, Type string
	Way          Way
	Messages     int
	Bytes        int
}

// hour returns the beginning of the hour that contains a time, as a stamp.
func hour(at time.Time) string { return orchestrator.Stamp(at.UTC().Truncate(time.Hour)) }

// Renewed returns the beginning of the next hour of the clock after a time. A new budget begins then.
func Renewed(at time.Time) time.Time { return at.UTC().Truncate(time.Hour).Add(time.Hour) }

// Note adds uses to the records of an agent, in the current hour.
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

// Clear deletes the records of the hours before the hour of a stamp.
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
	// framed is the number of bytes around one message. longest is the maximum number of bytes of one message in most
	// answers, since longer messages are cut.
	framed, longest = 500, 5000
	// forDigests is the divisor that gives the part of a budget that is reserved for digests: 1/8.
	forDigests = 8
	// maxUrgent is the maximum number of urgent messages of one sender that are shown to an agent beyond its budget
	// in an hour.
	maxUrgent = 10
)

// Budget is what hooks may still show to the models of an agent in the current hour of the clock.
type Budget struct {
	bounded bool
	left    int            // bytes, for messages
	digest  int            // bytes, for digests
	urgent  map[string]int // number of messages that were shown beyond the budget, by sender
}

// Left returns the rest of an agent's budget at a time.
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

// Spend returns the use of each message, from the first on, that fits into the budget together with the bytes around
// the messages, or that may be shown beyond the budget. It stops at the first message that does neither. size returns
// the bytes of a message.
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
// size of the smallest payload of the kind, in bytes. m holds the sender of the messages and, if they are urgent,
// their action and priority.
func (b Budget) Allows(m *orchestrator.Message, smallest int) bool {
	return !b.bounded || b.left-around >= min(smallest+framed, longest) || b.digest-around >= MaxLine || b.passes(m, 0)
}

// passes reports whether a message may be shown beyond the budget: an urgent message within maxUrgent, or a message
// of the user. others is the number of other messages of the sender that the same answer shows beyond the budget.
func (b Budget) passes(m *orchestrator.Message, others int) bool {
	return m.Sender == orchestrator.User || isUrgent(m) && b.urgent[m.Sender]+others < maxUrgent
}

// Passes reports whether a message may later be shown beyond the budget, after the given uses. No part of the message
// is shown with these uses.
func (b Budget) Passes(m *orchestrator.Message, beside []Use) bool {
	others := 0
	for i := range beside {
		if beside[i].Way == wayUrgent && beside[i].Sender == m.Sender {
			others++
		}
	}
	return b.passes(m, others)
}

// DigestRoom returns how many bytes the lines of a digest may take in addition to the given uses.
func (b Budget) DigestRoom(uses []Use) int {
	room := b.digest - around
	for i := range uses {
		if uses[i].Way != wayUrgent {
			room -= uses[i].Bytes
		}
	}
	return room
}

func isUrgent(m *orchestrator.Message) bool {
	return m.Action == "interrupt" || orchestrator.PriorityWord(m.Priority) == "urgent"
}
