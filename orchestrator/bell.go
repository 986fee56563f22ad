package orchestrator

import (
	"context"
	"time"
)

// Bell wakes those who wait for messages. A ring says "look again" and nothing more: it may be heard once for many
// rings, and now and then for none. A message is never lost with a lost ring, since the database is what counts and
// every listener looks there from time to time anyway. All methods are safe for concurrent use.
type Bell interface {
	// Ring wakes listeners, in this process and in others: those who listen for one of the recipients and those who
	// listen for everything; without recipients all there are. Call it after the commit that made work due. It never
	// blocks and never fails.
	Ring(recipients ...string)

	// Listen returns a channel on which rings for a recipient arrive, for "" all rings, and a function that ends the
	// listening. A ring is true when it named the recipient: then there is something for it, unless somebody else was
	// faster. The channel holds one ring: more of them that come before it is read are one. It is never closed.
	// Whatever was committed before Listen returned may ring or not, so look once after it returned, then wait.
	// Listening ends when stop is called, which may be done more than once, or when ctx ends. Once stop has returned,
	// it takes no more rings. The error is context.Cause(ctx) when ctx has ended already; there is no other.
	Listen(ctx context.Context, recipient string) (rings <-chan bool, stop func(), err error)
}

// SlowPoll is how long a listener waits at most before it looks again without a ring, in case one was lost.
const SlowPoll = time.Minute

// AnyThread is the name under which the bell rings for posts in any thread. Whoever waits for posts may take part in
// many threads.
const AnyThread = ThreadPrefix
