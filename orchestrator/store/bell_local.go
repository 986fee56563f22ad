package store

import (
	"context"
	"sync"

	"mailroom/orchestrator"
)

// Listeners holds the channels of the listeners of this process, by recipient. The zero value has no listeners. It
// is safe for concurrent use.
type Listeners struct {
	mu   sync.Mutex
	open map[string]map[chan bool]bool
	n    int
}

// Add returns a new channel that receives the rings for a recipient.
func (l *Listeners) Add(recipient string) chan bool {
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

// Remove removes a channel and returns the number of channels that are left.
func (l *Listeners) Remove(recipient string, rings chan bool) (left int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open[recipient], rings)
	if len(l.open[recipient]) == 0 {
		delete(l.open, recipient)
	}
	l.n--
	return l.n
}

// Count returns the number of listeners.
func (l *Listeners) Count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}

// Wake wakes the listeners of the recipients, and those that listen for all. Without recipients, it wakes every
// listener.
func (l *Listeners) Wake(recipients ...string) {
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
		default: // a ring is already waiting in the channel
		}
	}
}

// StopOnce returns a function that calls end once, when it is called or when ctx ends.
func StopOnce(ctx context.Context, end func()) (stop func()) {
	once := sync.OnceFunc(end)
	forget := context.AfterFunc(ctx, once)
	return func() {
		forget()
		once()
	}
}

// NewLocalBell returns a bell that reaches only the listeners of this process. It uses channels only, so it works
// inside a testing/synctest bubble.
func NewLocalBell() orchestrator.Bell { return &localBell{} }

type localBell struct{ listeners Listeners }

func (b *localBell) Ring(recipients ...string) { b.listeners.Wake(recipients...) }

func (b *localBell) Listen(ctx context.Context, recipient string) (<-chan bool, func(), error) {
	if ctx.Err() != nil {
		return nil, func() {}, context.Cause(ctx)
	}
	rings := b.listeners.Add(recipient)
	return rings, StopOnce(ctx, func() { b.listeners.Remove(recipient, rings) }), nil
}
