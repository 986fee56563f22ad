package browsertest

import (
	"context"
	"errors"
	"slices"
	"sync"
)

var errEnded = errors.New("there is no more")

// feed is a list that others add to while a test waits for what comes next. Nothing is forgotten. Safe for concurrent
// use, but for next, which one goroutine may call.
type feed[T any] struct {
	mu    sync.Mutex
	list  []T
	ended bool
	grown chan struct{} // closed when the list has grown or ended; nil when nobody waits
	read  int
}

func (f *feed[T]) add(v T) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, v)
	f.wake()
}

func (f *feed[T]) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
	f.wake()
}

func (f *feed[T]) wake() {
	if f.grown != nil {
		close(f.grown)
		f.grown = nil
	}
}

// all returns what has come so far.
func (f *feed[T]) all() []T {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.list)
}

// next waits for the first one that nobody has taken yet and that fits, and passes over those before it. It fails with
// errEnded when no more can come, and with the context's cause.
func (f *feed[T]) next(ctx context.Context, fits func(T) bool) (v T, err error) {
	for {
		f.mu.Lock()
		for f.read < len(f.list) {
			v = f.list[f.read]
			f.read++
			if fits == nil || fits(v) {
				f.mu.Unlock()
				return v, nil
			}
		}
		if f.ended {
			f.mu.Unlock()
			return v, errEnded
		}
		if f.grown == nil {
			f.grown = make(chan struct{})
		}
		grown := f.grown
		f.mu.Unlock()
		select {
		case <-grown:
		case <-ctx.Done():
			return v, context.Cause(ctx)
		}
	}
}
