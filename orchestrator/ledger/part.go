package ledger

import (
	"context"
	"strings"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// Part describes, as data, what a record type (questions, sessions, ...) adds to the engine. The engine calls the
// functions of every part and does not depend on the record types. Every field is optional. Package router lists all
// parts.
type Part struct {
	Name string

	// Prefix is the common prefix of the names of the part's recipients, which can receive deliveries but are not
	// agents.
	Prefix string

	// Recipients lists the part's recipients. It is called whenever the configuration is read.
	Recipients func(c *store.Conn) ([]*Agent, error)

	// Secret returns the Secret of an attempt at one of the part's recipients. It is called in the transaction that
	// claims the message.
	Secret func(t *Tx, recipient string) (string, error)

	// Tried receives the outcome of the last attempt at one of the part's recipients, in the transaction that settles
	// it.
	Tried func(t *Tx, recipient, outcome string) error

	// Gone is called when an attempt found the address of one of the part's recipients permanently gone, in the
	// transaction that settles the attempt. It returns false if the recipient has another address by now,
	// recognizable by its Secret; the message is then retried.
	Gone func(t *Tx, recipient, secret, reason string) (bool, error)

	// Pointless returns the reason why a message whose delivery to one of the part's recipients failed needs no
	// further attempt, or "" if it needs one. It is called in the transaction that settles the attempt.
	Pointless func(t *Tx, m *orchestrator.Message) (why string, err error)

	// HasDevice reports whether the user has a device that could show a message. It is called in the transactions
	// that send a message to the user or settle one.
	HasDevice func(c *store.Conn) (bool, error)

	// Replying is called for a draft that answers a message, in the transaction that sends it, before it is stored.
	// It may change the draft or refuse it.
	Replying func(t *Tx, re *Reply) error

	// Replayed is called after the replay of a dead letter, in the same transaction.
	Replayed func(t *Tx, messageID string) error

	// AgentChanged is called after the update of an existing agent, in the same transaction.
	AgentChanged func(t *Tx, before, after *Agent) error

	// Heard records that an agent with a SilentAfter limit has been active. It is called at the end of the request in
	// which the agent was active.
	Heard func(t *Tx, a *Agent) error

	// Forget removes an agent from the part's records, in the transaction that removes the agent. Nobody else removes
	// the agent there.
	Forget func(t *Tx, name string) error

	// AgentRemoved is called after the removal of an agent, in the same transaction. The name is then free and the
	// agent's mail has been given up.
	AgentRemoved func(t *Tx, name string) error

	// SessionEnded is called after the end of a session that was started for an agent, in the transaction that
	// records the end. outcome describes how the session ended.
	SessionEnded func(t *Tx, agent, outcome string) error

	// Attended returns the name of a session that reads an agent's inbox without having been started for it, or "".
	Attended func(c *store.Conn, agent string, now time.Time) (session string, err error)

	// Chore is work that is due at times stored in the part's rows; nil means none.
	Chore *Chore

	// Errand is work that each delivery run to all recipients performs; nil means none.
	Errand *Errand

	// Over lists the part's rows that retention deletes, in this order.
	Over []Rows

	// Outdated lists the part's rows that must not return when a backup is restored.
	Outdated []store.Outdated

	// Outside is a query that lists, as sentences, the effects of the part's rows outside of the database; "" means
	// none.
	Outside string
}

// Chore is work that is due at a time stored in a row. One statement looks for the due times of all parts. The work
// is done in a transaction before anything is delivered.
type Chore struct {
	Table string
	Where string // condition for the rows with such a time
	At    string // column with the time, in the form of orchestrator.Stamp
	// the furthest a time may lie ahead; a time beyond that, left by a clock that was set back, is moved back to it
	Longest time.Duration

	// Do does the work that is due. more reports whether a further transaction is needed.
	Do func(t *Tx) (more bool, err error)
}

// Errand is work that needs more than one transaction, or takes a long time.
type Errand struct {
	// Due reports whether there is work to do. It is called every second, and takes microseconds.
	Due func(c *store.Conn, now time.Time) (bool, error)

	// Do performs the work. It is called outside of any transaction, possibly by several goroutines at once.
	Do func(ctx context.Context, l *Ledger)
}

// Rows selects rows of a table that have no use after some time.
type Rows struct {
	Table string
	Over  string // condition for rows without further use; ?1 is the time before which that state must have begun
	Idle  bool   // the time is never later than the setting retention.ended allows: the rows concern current work
}

// Reply is a draft that answers a message and is about to be stored.
type Reply struct {
	Draft      orchestrator.Draft   // the draft to store
	To         orchestrator.Message // the answered message, with its sender, recipient, times and thread
	Recipients []string             // recipients of the draft: exactly one unless IsGroup
	IsGroup    bool
	Outside    string                         // reason why the reply does not join the thread of the answered message
	Stored     func(*orchestrator.Sent) error // called after the reply is stored; nil does nothing
}

// PartOf returns the part to which a recipient belongs, or nil for an agent, the operator or the user.
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
