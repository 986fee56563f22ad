package orchestrator

import (
	"context"
	"errors"
	"time"
)

// Transport carries messages from the database to the place where a recipient reads them. One value serves every
// address of its scheme. Its methods are called concurrently, even for one address if several agents share it.
//
// An agent's `--deliver` is SCHEME or SCHEME:ADDRESS. The engine finds the transport by the scheme.
type Transport interface {
	// Check validates an address and returns it in canonical form (for example, a path made absolute). It is called
	// when an agent is added, not at delivery.
	Check(address string) (canonical string, err error)

	// Deliver hands over the messages of one attempt, in order, and returns one error per message. The error is nil
	// if the recipient has the message. Deliver is called outside any transaction; ctx ends at the delivery
	// timeout. A message fails at once if its error is or wraps ErrUndecidable or ErrRefused. After any other error
	// the message is retried on its retry schedule.
	Deliver(ctx context.Context, a Attempt) []error

	// MaxBatch returns the largest number of messages in one attempt, at least 1.
	MaxBatch() int
}

// Recoverer is a Transport that can find out whether an attempt delivered its message although its process died
// before it reported the result.
type Recoverer interface {
	// Recover looks for the one message in a.Messages by the mark that Deliver stored with it (Message.Mark). It
	// returns true if the recipient has the message, and false if the recipient does not have it and Deliver may
	// try again. It returns an error that is or wraps ErrUndecidable if it cannot tell.
	Recover(ctx context.Context, a Attempt) (delivered bool, err error)
}

// SetTransport is a Transport that delivers inside the database, such as the inbox transport. It delivers a whole
// set of messages within the transaction that claims and settles them, and so exactly once. DeliverSet is called in
// place of Deliver.
type SetTransport interface {
	// DeliverSet delivers every row of agent_message whose seq is in the table temp.batch, by running statements
	// through exec. It records the time at. It must not begin or end a transaction.
	DeliverSet(exec func(query string, args ...any) error, at string) error

	// DeliverRead delivers the row with this seq as already read: its recipient reads it in the same transaction. It
	// runs an INSERT of one row through exec.
	DeliverRead(exec func(query string, args ...any) error, seq int64, at string) error
}

// Sized is a Transport whose usual batch is smaller than its MaxBatch. An agent can ask for more.
type Sized interface {
	// UsualBatch returns the batch size, from 1 to MaxBatch, for an agent that asks for none.
	UsualBatch() int
}

// Foldered is a Transport whose addresses depend on the agent's working folder.
type Foldered interface {
	// CheckIn validates an address for an agent that works in this folder; "" is the current folder.
	CheckIn(folder, address string) (canonical string, err error)
}

// Placing is a Transport that gives each agent its own place below an address.
type Placing interface {
	// CheckPlace returns an error if nothing could be delivered to an agent below an address in canonical form. It
	// creates nothing.
	CheckPlace(agent, address string) error
}

// Staging is a Transport that stages messages before it delivers them. A process that dies leaves staged messages
// behind.
type Staging interface {
	// ClearStaged removes what is staged below an address in canonical form, from this database (Attempt.Database)
	// to these recipients, except for the messages that needed returns. It first lists the staged messages and
	// calls needed only if there are any, so messages that an attempt stages meanwhile stay.
	ClearStaged(database, address string, recipients []string, needed func() ([]Message, error)) error
}

// Reaching is a Transport whose addresses may lead into this machine or a private network. An agent needs a
// permission for such an address.
type Reaching interface {
	// IsPrivate reports whether an address in canonical form leads there, as far as the address itself shows.
	IsPrivate(address string) bool
}

// Slotted is a Transport that limits the concurrent attempts for a recipient, over all processes together.
type Slotted interface {
	// Slot takes one of the slots 0 to limit-1 of a recipient in a database. It does not wait: it returns ErrNoSlot
	// if all of them are taken. The engine takes a slot before it claims messages, passes it to the attempt and
	// releases it afterwards.
	Slot(database, recipient string, limit int) (Slot, error)
}

// Returning is the Transport of User. It sends answers back to the agents that asked.
type Returning interface {
	// Return sends back the answers that questions.Unreturned lists, as far as possible. Every delivery run that
	// finds any calls it, from one goroutine of a process at a time.
	Return(ctx context.Context) error
}

// Slot is the right to make one attempt. Release gives it back.
type Slot interface{ Release() }

// ErrNoSlot is the error of Slotted.Slot when as many attempts are in progress as the agent allows.
var ErrNoSlot = errors.New("the agent's limit of concurrent attempts is reached")

// Lingerer is a Transport whose Deliver may take longer than others to return after its context has ended.
type Lingerer interface {
	// Linger returns how long Deliver may take to return after its context has ended. The value is at most 20 s,
	// because the lease lasts 30 s longer than the attempt. For transports without Linger it is 2 s.
	Linger() time.Duration
}

// Attempt is one attempt to hand messages to a recipient.
type Attempt struct {
	Recipient string
	Since     string    // when the recipient was added; distinguishes it from a later agent with the same name
	Address   string    // the part after the scheme, in canonical form
	Messages  []Message // in the order in which they must arrive
	Database  string    // path of the database
	At        time.Time // when the attempt begins, by the engine's clock; zero outside the engine

	Folder       string // where the agent's commands run; "" is the current folder
	PassEnv      string // variables of our environment passed to the commands; see program.Command
	Secret       string // signs the messages to the agent; "" if it has none
	AllowPrivate bool   // the address may lead into this machine or a private network
	Slot         Slot   // of a Slotted transport; nil outside the engine

	// Mark stores a note with every message of the attempt, durably, before it returns. Recover needs the note to
	// find the delivery again. Mark is fenced: if another worker holds these messages by now, Mark returns
	// ErrLeaseLost and the transport must deliver nothing. A transport that has stored a note and then certainly
	// delivered nothing clears the note by marking with "". Messages without a note may go to a fallback, expire or
	// be cancelled without a call of Recover.
	Mark func(ctx context.Context, note string) error

	// Report sets the text that the trace keeps of the attempt besides its outcome, such as a program's output or a
	// server's response. The last call before Deliver returns counts; at most 16 KiB are kept. Report is nil
	// outside the engine.
	Report func(text string)
}

// Errors that Deliver returns or wraps. RetryAfter is another.
var (
	// ErrLeaseLost reports that a message's lease expired and another worker claimed the message.
	ErrLeaseLost = errors.New("the lease on the message expired and another worker claimed the message")

	// ErrUndecidable reports that a crash left it unknown whether a message was delivered. The message fails at
	// once with this reason, because another attempt could deliver it twice. Source: contract, "What is promised",
	// 2.
	ErrUndecidable = errors.New("cannot tell whether the message was delivered")

	// ErrTryLater reports that the recipient asks for a later attempt. It uses up no retry. The message is due
	// again after the waits of the retry schedule, then again and again after the last wait, until the message
	// expires.
	ErrTryLater = errors.New("the recipient asked for a later retry")

	// ErrRefused reports that the recipient will never accept this message. The message fails at once and its
	// sender is notified.
	ErrRefused = errors.New("the recipient rejected the message")

	// ErrNoDevice reports that the user has no device that could show the message. The message waits, without using
	// up retries, until a device is approved.
	ErrNoDevice = errors.New(WaitsForDevice)

	// ErrGone reports that the address no longer exists and that the recipient accepts no more messages there. The
	// agent's transport is disabled; its messages wait until the agent gets another transport.
	ErrGone = errors.New("the address no longer exists")

	// ErrStopping is the cause with which an attempt's context ends when its process is about to exit.
	ErrStopping = errors.New("the process is stopping")
)

// RetryAfter is the error of an attempt whose recipient names a time for the next attempt. The next attempt is not
// made earlier, but the wait is no longer than the longest wait of the retry schedule.
type RetryAfter struct {
	Wait time.Duration
	Err  error
}

func (e *RetryAfter) Error() string { return e.Err.Error() }

func (e *RetryAfter) Unwrap() error { return e.Err }

// WaitsForDevice is the reason why a message to the user is not delivered yet: no device could show it.
const WaitsForDevice = "waits for a device"
