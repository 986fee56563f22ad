package browsertest

import (
	"context"
	"errors"
	"slices"
	"sync"
)

var errEnded = errors.New("there is no more")

// feed is a list to which others append while a test waits for the next element. It keeps all elements. It is safe
// for concurrent use, except that only one goroutine may call next.
type feed[T any] struct {
	mu    sync.Mutex
	list  []T
	ended bool
	grown chan struct{} // closed when the list has grown or ended; nil if nobody waits
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

// all returns all elements so far.
func (f *feed[T]) all() []T {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.list)
}

// next waits for the first unread element that fits, and skips the elements before it. It returns errEnded when there
// will be no more elements, or the cause of ctx.
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
