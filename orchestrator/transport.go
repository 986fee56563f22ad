package orchestrator

import (
	"context"
	"errors"
	"time"
)

// Transport carries messages out of the database to where a recipient looks. One value serves every address of its
// scheme; it is called concurrently, also for one address when several agents share it.
//
// An agent's `--deliver` is SCHEME or SCHEME:ADDRESS. The engine finds the transport by the scheme.
type Transport interface {
	// Check validates an address and returns it in canonical form (a path made absolute, for instance). It is called
	// when an agent is added, not at delivery.
	Check(address string) (canonical string, err error)

	// Deliver hands over the messages of one attempt, in order, and returns one error per message, nil for one that the
	// recipient now has. It is called outside any transaction; ctx ends at the delivery timeout. An error that is or
	// wraps ErrUndecidable or ErrRefused fails its message at once; any other sends it up the ladder.
	Deliver(ctx context.Context, a Attempt) []error

	// MaxBatch is the largest number of messages of one attempt, at least 1.
	MaxBatch() int
}

// Recoverer is a Transport that can find out whether an attempt got through that never reported back, because its
// process died.
type Recoverer interface {
	// Recover looks for a.Messages, of which there is one, by the mark that Deliver left on it (Message.Mark).
	// true: the recipient has it. false: it has not, and Deliver may try again. An error that is or wraps
	// ErrUndecidable: it cannot be known.
	Recover(ctx context.Context, a Attempt) (delivered bool, err error)
}

// SetTransport is a Transport inside the database, such as that into inboxes. It delivers a whole set of messages
// within the transaction that claims and settles them, and so exactly once. DeliverSet is called in place of Deliver.
type SetTransport interface {
	// DeliverSet runs statements through exec that deliver every row of agent_message whose seq is in the table
	// temp.batch. at is the time to record. It must not begin or end a transaction.
	DeliverSet(exec func(query string, args ...any) error, at string) error

	// DeliverRead does the same for the row with this seq, which its recipient reads in the same transaction.
	DeliverRead(exec func(query string, args ...any) error, seq int64, at string) error
}

// Sized is a Transport that gets fewer messages at once than it could take, unless the agent asks for more.
type Sized interface {
	// UsualBatch is the size of an attempt for an agent that asks for none, from 1 to MaxBatch.
	UsualBatch() int
}

// Foldered is a Transport whose addresses depend on the folder in which the agent works.
type Foldered interface {
	// CheckIn is Check for an agent whose folder is this one; "" is the present one.
	CheckIn(folder, address string) (canonical string, err error)
}

// Placing is a Transport that gives each agent a place of its own below an address.
type Placing interface {
	// CheckPlace says why nothing could be delivered to an agent below an address in canonical form. It makes nothing.
	CheckPlace(agent, address string) error
}

// Staging is a Transport that first puts messages somewhere on their way. A process that dies leaves them there.
type Staging interface {
	// ClearStaged removes what is on its way below an address in canonical form, from this database (Attempt.Database)
	// to these recipients, but for the messages that needed returns. Those are asked for only if there is something,
	// and afterwards: what an attempt stages meanwhile stays.
	ClearStaged(database, address string, recipients []string, needed func() ([]Message, error)) error
}

// Reaching is a Transport whose addresses may lead into this machine or a private network. An agent needs a permission
// for that.
type Reaching interface {
	// IsPrivate reports whether an address in canonical form does, as far as it shows that itself.
	IsPrivate(address string) bool
}

// Slotted is a Transport that allows a recipient only so many attempts at a time, in all processes together.
type Slotted interface {
	// Slot takes one of the slots 0 to limit-1 of a recipient in a database. It does not wait: ErrNoSlot says that
	// others hold them all. The engine takes a slot before it claims messages, hands it to the attempt and releases it
	// afterwards.
	Slot(database, recipient string, limit int) (Slot, error)
}

// Returning is the Transport of User: it sends answers back to the agents whose messages asked.
type Returning interface {
	// Return sends back what questions.Unreturned lists, as far as it can. It is called with every delivery run that
	// finds something there, by one goroutine of a process at a time.
	Return(ctx context.Context) error
}

// Slot is the right to make one attempt. Release gives it back.
type Slot interface{ Release() }

// ErrNoSlot is what Slotted.Slot returns when as many attempts are under way as the agent allows.
var ErrNoSlot = errors.New("the agent's limit of concurrent attempts is reached")

// Lingerer is a Transport whose Deliver may need longer than others to return once its context has ended.
type Lingerer interface {
	// Linger is how long Deliver may take then. It is 2 s for other transports, and at most 20 s: the lease lasts 30 s
	// longer than the attempt.
	Linger() time.Duration
}

// Attempt is one attempt to hand messages to a recipient.
type Attempt struct {
	Recipient string
	Since     string    // when the recipient was added; tells it from a later agent of the name
	Address   string    // what follows the scheme, in canonical form
	Messages  []Message // in the order in which they must arrive
	Database  string    // path of the database
	At        time.Time // when it begins, by the engine's clock; zero outside of the engine

	Folder       string // where the agent's commands run; "" is here
	PassEnv      string // what they get of our environment; see program.Command
	Secret       string // with which messages to the agent are signed; "" when it has none
	AllowPrivate bool   // the address may lead into this machine or a private network
	Slot         Slot   // of a Slotted transport; nil outside of the engine

	// Mark stores a note with every message of the attempt, durably, before it returns: what Recover needs to find the
	// delivery again. It is fenced: it fails with ErrLeaseLost, and the transport must then deliver nothing, when
	// another worker holds these messages by now. A transport that has marked and then certainly delivered nothing
	// takes its note back with an empty one: such messages may go to a fallback, expire or be cancelled without being
	// asked for.
	Mark func(ctx context.Context, note string) error

	// Report says what the trace is to keep of the attempt beside its outcome: a program's output, a server's answer.
	// The last call before Deliver returns counts; at most 16 KiB are kept. nil outside of the engine.
	Report func(text string)
}

// What an error of Deliver can be or wrap. A RetryAfter is another.
var (
	// ErrLeaseLost reports that a message was taken over by another worker after its lease ran out.
	ErrLeaseLost = errors.New("the lease on the message expired and another worker claimed the message")

	// ErrUndecidable reports that a crash left it impossible to know whether a message was delivered. It fails at once,
	// saying so, since trying again could deliver it twice. Source: contract, "What is promised", 2.
	ErrUndecidable = errors.New("cannot tell whether the message was delivered")

	// ErrTryLater reports that the recipient asks to be tried another time. It costs no rung: the message is due again
	// after the waits of the ladder, the last of them again and again, until it expires.
	ErrTryLater = errors.New("the recipient asked for a later retry")

	// ErrRefused reports that the recipient will never take this message. It fails at once, and its sender is told why.
	ErrRefused = errors.New("the recipient rejected the message")

	// ErrNoDevice reports that the user has no device that could show what a message tells. The message waits, at no
	// cost, until one is approved.
	ErrNoDevice = errors.New(WaitsForDevice)

	// ErrGone reports that the address does not exist any more, and the recipient wants no more messages there. The
	// agent's transport is disabled; its messages wait until somebody gives it another one.
	ErrGone = errors.New("the address no longer exists")

	// ErrStopping is the cause with which an attempt's context ends when its process is about to exit.
	ErrStopping = errors.New("the process is stopping")
)

// RetryAfter is the error of an attempt whose recipient says when to try again. The next attempt is not made before;
// but the wait is no longer than the longest of the ladder.
type RetryAfter struct {
	Wait time.Duration
	Err  error
}

func (e *RetryAfter) Error() string { return e.Err.Error() }

func (e *RetryAfter) Unwrap() error { return e.Err }

// WaitsForDevice says why a message to the user is not delivered yet: no device could show it.
const WaitsForDevice = "waits for a device"
