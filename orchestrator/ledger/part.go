package ledger

import (
	"context"
	"strings"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// Part is what a kind of record (questions, sessions, ...) adds to the engine, as data: the engine calls the functions
// of every part, and knows none of the records. Every field may be left out. Package router lists them all.
type Part struct {
	Name string

	// Prefix begins the names of its recipients: those who can be delivered to, and are no agents.
	Prefix string

	// Recipients lists its recipients. It is called whenever the configuration is read.
	Recipients func(c *store.Conn) ([]*Agent, error)

	// Secret returns what an attempt at one of its recipients has as its Secret. It is called in the transaction that
	// claims.
	Secret func(t *Tx, recipient string) (string, error)

	// Tried is told what came of the last attempt at one of its recipients, in the transaction that settles it.
	Tried func(t *Tx, recipient, outcome string) error

	// Gone is told, in the transaction that settles, that an attempt found the address of one of its recipients gone
	// for good. It reports false if the recipient has another one by now, which shows in its Secret: then the message
	// is tried again.
	Gone func(t *Tx, recipient, secret, reason string) (bool, error)

	// Pointless says why a message to one of its recipients, at which an attempt failed, needs no other; "" is that it
	// does. It is called in the transaction that settles.
	Pointless func(t *Tx, m *orchestrator.Message) (why string, err error)

	// HasDevice reports whether the user has a device that could show a message. It is called in the transaction that
	// sends a message to the user, and in the one that settles such a one.
	HasDevice func(c *store.Conn) (bool, error)

	// Replying is called for a draft that answers a message, in the transaction that sends it, before it is stored. It
	// may change what is stored, or refuse it.
	Replying func(t *Tx, re *Reply) error

	// Replayed follows the replay of a dead letter, in its transaction.
	Replayed func(t *Tx, messageID string) error

	// AgentChanged follows the update of an agent that was known before, in its transaction.
	AgentChanged func(t *Tx, before, after *Agent) error

	// Heard notes that an agent with a limit to its silence has done something, at the end of the request in which it
	// did.
	Heard func(t *Tx, a *Agent) error

	// Forget removes an agent from its records, in the transaction that removes the agent: nobody else takes its part
	// in them.
	Forget func(t *Tx, name string) error

	// AgentRemoved follows the removal of an agent, in its transaction: nobody has the name any more, and its mail is
	// given up.
	AgentRemoved func(t *Tx, name string) error

	// SessionEnded follows the end of a session that was started for an agent, in the transaction that notes it.
	// outcome says how it ended.
	SessionEnded func(t *Tx, agent, outcome string) error

	// Attended names a session that reads an agent's inbox without having been started for it; "" is none.
	Attended func(c *store.Conn, agent string, now time.Time) (session string, err error)

	// Chore is done when times have come that its rows have; nil is none.
	Chore *Chore

	// Errand is done by each delivery run to everybody; nil is none.
	Errand *Errand

	// Over are its rows that retention deletes, in this order.
	Over []Rows

	// Outdated is what of its rows must not come back with a backup.
	Outdated []store.Outdated

	// Outside is a query that lists, as sentences, what its rows have the program do outside of the database; "" is
	// none.
	Outside string
}

// Chore is what is to be done when a time has come that a row has. It is looked for with everything else that has a
// time, in one statement, and done in a transaction before anything is delivered.
type Chore struct {
	Table string
	Where string // condition of the rows that have such a time
	At    string // the column that has it, in the form of stamp
	// how far ahead it can lie; what lies further, since a clock was set back, is taken back to that
	Longest time.Duration

	// Do does what is due. more says that a further transaction is needed.
	Do func(t *Tx) (more bool, err error)
}

// Errand is work that needs more than one transaction, or takes its time.
type Errand struct {
	// Due reports whether there is something to do. It is asked every second, and costs microseconds.
	Due func(c *store.Conn, now time.Time) (bool, error)

	// Do does it. It is called outside of any transaction, also by several goroutines at once.
	Do func(ctx context.Context, l *Ledger)
}

// Rows are rows of a table that mean nothing any more once they are old.
type Rows struct {
	Table string
	Over  string // condition for those that mean nothing any more; ?1 is the time before which that must have begun
	Idle  bool   // that time is never later than the setting retention.ended says: they are about what is going on
}

// Reply is a draft that answers a message, about to be stored.
type Reply struct {
	Draft      orchestrator.Draft   // what is stored
	To         orchestrator.Message // what it answers: who sent and got that, when, and where it stands
	Recipients []string             // of the draft, of which there is one unless IsGroup
	IsGroup    bool
	Outside    string                         // why it does not join the thread in which what it answers stands
	Stored     func(*orchestrator.Sent) error // called once it is stored; nil does nothing
}

// PartOf returns the part to which a recipient belongs; nil for an agent, the operator or the user.
func (l *Ledger) PartOf(recipient string) *Part {
	for _, p := range l.Parts {
		if p.Prefix != "" && strings.HasPrefix(recipient, p.Prefix) {
			return p
		}
	}
	return nil
}

// Chores returns the chores of all parts.
func (l *Ledger) Chores() (list []*Chore) {
	for _, p := range l.Parts {
		if p.Chore != nil {
			list = append(list, p.Chore)
		}
	}
	return list
}

// UserHasDevice reports whether the user has a device that could show a message.
func (t *Tx) UserHasDevice() (bool, error) {
	for _, p := range t.Ledger.Parts {
		if p.HasDevice != nil {
			return p.HasDevice(t.Conn)
		}
	}
	return false, nil
}
