package orchestrator

import (
	"context"
	"sync"
)

// Bell wakes those who wait for messages. A ring says "look again" and nothing more: it may be heard once for many
// rings, and now and then for none. A message is never lost with a lost ring, since the database is what counts and
// every listener looks there from time to time anyway. All methods are safe for concurrent use.
type Bell interface {
	// Ring wakes listeners, in this process and in others: those who listen for one of the recipients and those who listen
	// for everything; without recipients all there are. Call it after the commit that made work due. It never blocks and
	// never fails.
	Ring(recipients ...string)

	// Listen returns a channel on which rings for a recipient arrive, for "" all rings, and a function that ends the
	// listening. A ring is true when it named the recipient: then there is something for it, unless somebody else was
	// faster. The channel holds one ring: more of them that come before it is read are one. It is never closed. Whatever
	// was committed before Listen returned may ring or not, so look once after it returned, then wait. Listening ends when
	// stop is called, which may be done more than once, or when ctx ends. Once stop has returned, it takes no more rings.
	// The error is context.Cause(ctx) when ctx has ended already; there is no other.
	Listen(ctx context.Context, recipient string) (rings <-chan bool, stop func(), err error)
}

// listeners are the channels of those who listen in this process, by the recipient for whom they do. The zero value has
// none. Safe for concurrent use.
type listeners struct {
	mu   sync.Mutex
	open map[string]map[chan bool]bool
	n    int
}

func (l *listeners) add(recipient string) chan bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil {
		l.open = map[string]map[chan bool]bool{}
	}
	if l.open[recipient] == nil {
		l.open[recipient] = map[chan bool]bool{}
	}
	rings := make(chan bool, 1)
	l.open[recipient][rings] = true
	l.n++
	return rings
}

// remove returns how many are left.
func (l *listeners) remove(recipient string, rings chan bool) (left int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open[recipient], rings)
	if len(l.open[recipient]) == 0 {
		delete(l.open, recipient)
	}
	l.n--
	return l.n
}

func (l *listeners) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}

// wake wakes those whom a ring for the recipients concerns; without recipients, everybody.
func (l *listeners) wake(recipients ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(recipients) == 0 {
		for _, those := range l.open {
			wakeThese(those, false)
		}
		return
	}
	for _, recipient := range recipients {
		wakeThese(l.open[recipient], true)
	}
	wakeThese(l.open[""], false)
}

func wakeThese(open map[chan bool]bool, named bool) {
	for rings := range open {
		select {
		case rings <- named:
		default: // has a ring that it has not heard yet
		}
	}
}

// stopOnce returns a function that calls end once, when it is called or when ctx ends.
func stopOnce(ctx context.Context, end func()) (stop func()) {
	once := sync.OnceFunc(end)
	forget := context.AfterFunc(ctx, once)
	return func() {
		forget()
		once()
	}
}

// NewLocalBell returns a bell that is heard in this process alone. It is made of channels only, so it works inside a
// testing/synctest bubble.
func NewLocalBell() Bell { return &localBell{} }

type localBell struct{ listeners listeners }

func (b *localBell) Ring(recipients ...string) { b.listeners.wake(recipients...) }

func (b *localBell) Listen(ctx context.Context, recipient string) (<-chan bool, func(), error) {
	if ctx.Err() != nil {
		return nil, func() {}, context.Cause(ctx)
	}
	rings := b.listeners.add(recipient)
	return rings, stopOnce(ctx, func() { b.listeners.remove(recipient, rings) }), nil
}
