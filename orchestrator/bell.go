package orchestrator

import (
	"context"
	"time"
)

// Bell wakes the listeners that wait for messages. A ring only means "look again". Several rings may arrive as one,
// and a ring may be lost. A lost ring loses no message, because the messages are in the database and every listener
// polls it. All methods are safe for concurrent use.
type Bell interface {
	// Ring wakes listeners in this process and in others: the listeners for one of the recipients and the listeners
	// for everything. Without recipients Ring wakes all listeners. Call Ring after the commit that made work due.
	// It never blocks and never fails.
	Ring(recipients ...string)

	// Listen returns a channel on which the rings for a recipient arrive, and a function that stops listening. The
	// recipient "" stands for all rings. A received value is true if the ring named the recipient: a message is
	// then waiting, unless another reader was faster. The channel buffers one ring; further rings that come before
	// it is read are merged into it. The channel is never closed. A commit made before Listen returned may ring or
	// not, so look at the database once after Listen returns, then wait. Listening ends when ctx ends or stop is
	// called. Stop may be called more than once; after it returns, no more rings arrive. If ctx has already ended,
	// Listen returns context.Cause(ctx). It returns no other error.
	Listen(ctx context.Context, recipient string) (rings <-chan bool, stop func(), err error)
}

// SlowPoll is the longest time that a listener waits for a ring before it polls the database, in case a ring was
// lost.
const SlowPoll = time.Minute

// AnyThread is the name under which the bell rings for posts in any thread, because a listener for posts may take
// part in many threads.
const AnyThread = ThreadPrefix
