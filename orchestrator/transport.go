package orchestrator

import (
	"context"
	"errors"
	"time"
)

// Transport carries messages out of the database to where a recipient looks. One value serves every address of its
// scheme; it is called concurrently, also for one address when several agents share it.
//
// An agent's `--deliver` is SCHEME or SCHEME:ADDRESS. The router finds the transport by the scheme.
type Transport interface {
	// Check validates an address and returns it in canonical form (a path made absolute, for instance). It is called
	// when an agent is added, not at delivery.
	Check(address string) (canonical string, err error)

	// Deliver hands over the messages of one attempt, in order, and returns one error per message, nil for one that the
	// recipient now has. It is called outside any transaction; ctx ends at the delivery timeout. An error that is or
	// wraps ErrUndecidable fails its message at once; any other sends it up the ladder.
	Deliver(ctx context.Context, a Attempt) []error

	// MaxBatch is the largest number of messages of one attempt, at least 1.
	MaxBatch() int
}

// Recoverer is a Transport that can tell whether an attempt which never reported back had got through.
type Recoverer interface {
	// Recover looks for a.Messages, of which there is one, by the mark that Deliver left on it (Message.Mark).
	// true: the recipient has it. false: it has not, and Deliver may try again. An error that is or wraps
	// ErrUndecidable: it cannot be known.
	Recover(ctx context.Context, a Attempt) (delivered bool, err error)
}

// SetTransport is a Transport inside the database: it takes a whole set of messages within the transaction that claims
// and settles them, which makes it exactly-once by construction. The router calls DeliverSet in place of Deliver.
type SetTransport interface {
	// DeliverSet runs statements through exec that deliver every row of agent_message whose seq is in the table temp.batch.
	// at is the time to record. It must not begin or end a transaction.
	DeliverSet(exec func(query string, args ...any) error, at string) error

	// DeliverRead does the same for the row with this seq, which its recipient reads in the same transaction.
	DeliverRead(exec func(query string, args ...any) error, seq int64, at string) error
}

// Attempt is one try at handing messages to one recipient.
type Attempt struct {
	Recipient string
	Address   string    // what follows the scheme, in canonical form
	Messages  []Message // in the order in which they must arrive
	Timeout   time.Duration

	// Mark stores a note with every message of the attempt, durably, before it returns: what Recover needs to find the
	// delivery again. It is fenced: it fails with ErrLeaseLost, and the transport must then deliver nothing, when
	// another worker holds these messages by now. A transport that has marked and then certainly delivered nothing takes
	// its note back with an empty one: such messages may go to a fallback, expire or be cancelled without being asked for.
	Mark func(ctx context.Context, note string) error
}

// ErrLeaseLost reports that a message was taken over by another worker after its lease ran out.
var ErrLeaseLost = errors.New("the lease on the message ran out and another worker took it over")

// ErrUndecidable reports that a crash left it impossible to know whether a message was delivered. It fails at once,
// saying so, since trying again could deliver it twice. Source: contract, "What is promised", 2.
var ErrUndecidable = errors.New("cannot tell whether the message was delivered")
