package orchestrator

import (
	"context"
	"sync"
)

// Bell wakes whoever waits for messages: daemons and `wait`. It is only a hint. A ring may be lost, so that listeners
// also look by themselves now and then; and it may come for nothing.
type Bell interface {
	// Ring wakes all listeners, in this process and in others. It is called after a commit that made something due. It
	// never blocks and never fails.
	Ring()
	// Listen returns a channel that gets a value after every ring; several rings may become one. stop ends it. Safe for
	// concurrent use.
	Listen(ctx context.Context) (rings <-chan struct{}, stop func(), err error)
}

// localBell rings within one process only.
type localBell struct {
	mu        sync.Mutex
	listeners map[chan struct{}]bool
}

// NewLocalBell returns a bell that reaches this process only, through channels. It suits tests that run in a bubble of
// testing/synctest, and databases that only one process uses.
func NewLocalBell() Bell { return &localBell{listeners: map[chan struct{}]bool{}} }

func (b *localBell) Ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for c := range b.listeners {
		wake(c)
	}
}

func (b *localBell) Listen(context.Context) (<-chan struct{}, func(), error) {
	c := make(chan struct{}, 1)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.listeners[c] = true
	return c, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.listeners, c)
	}, nil
}

// wake makes sure that a value is in a channel of capacity one.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
