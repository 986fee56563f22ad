package orchestrator

import (
	"context"
	"sync"
)

// Bell wakes those who wait for messages. A ring says "look again" and nothing more: it may be heard once for many
// rings, and now and then for none. A message is never lost with a lost ring, since the database is what counts and
// every listener looks there from time to time anyway. All methods are safe for concurrent use.
type Bell interface {
	// Ring wakes all listeners, in this process and in others. Call it after the commit that made work due. It never
	// blocks and never fails.
	Ring()

	// Listen returns a channel on which rings arrive, and a function that ends the listening. The channel holds one
	// ring: more of them that come before it is read are one. It is never closed. Whatever was committed before Listen
	// returned may ring or not, so look once after it returned, then wait. Listening ends when stop is called, which
	// may be done more than once, or when ctx ends. Once stop has returned, it takes no more rings. The error is
	// context.Cause(ctx) when ctx has ended already; there is no other.
	Listen(ctx context.Context) (rings <-chan struct{}, stop func(), err error)
}

// listeners are the channels of those who listen in this process. The zero value has none. Safe for concurrent use.
type listeners struct {
	mu   sync.Mutex
	open map[chan struct{}]bool
}

func (l *listeners) add() chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil {
		l.open = map[chan struct{}]bool{}
	}
	rings := make(chan struct{}, 1)
	l.open[rings] = true
	return rings
}

// remove returns how many are left.
func (l *listeners) remove(rings chan struct{}) (left int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, rings)
	return len(l.open)
}

func (l *listeners) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.open)
}

func (l *listeners) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for rings := range l.open {
		select {
		case rings <- struct{}{}:
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

func (b *localBell) Ring() { b.listeners.wake() }

func (b *localBell) Listen(ctx context.Context) (<-chan struct{}, func(), error) {
	if ctx.Err() != nil {
		return nil, func() {}, context.Cause(ctx)
	}
	rings := b.listeners.add()
	return rings, stopOnce(ctx, func() { b.listeners.remove(rings) }), nil
}
