package storetest

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"mailroom/orchestrator/store"
)

// work is a request's work made of functions. A nil function does nothing.
type work struct {
	prepare, run func(t *store.Transaction) error
	ring         store.Ring

	lazy    bool
	runs    atomic.Int64 // number of runs
	durable atomic.Bool
}

func (w *work) Prepare(t *store.Transaction) error {
	if w.prepare == nil {
		return nil
	}
	return w.prepare(t)
}

func (w *work) Run(t *store.Transaction) error {
	w.runs.Add(1)
	if w.run == nil {
		return nil
	}
	return w.run(t)
}

func (w *work) Quiet() bool        { return false }
func (w *work) Lazy() bool         { return w.lazy }
func (w *work) Rings() *store.Ring { return &w.ring }
func (w *work) Durable()           { w.durable.Store(true) }

// adds returns work that adds rows.
func adds(keys ...string) *work {
	return &work{run: func(t *store.Transaction) error {
		for _, key := range keys {
			if err := add(t, key); err != nil {
				return err
			}
		}
		return nil
	}}
}

// write runs work without a deadline.
func write(st store.Store, w *work) error { return writing(st, w)(context.Background()) }

// Occupy begins a batch of a store that writes nothing. Requests that arrive during this batch form the next batch,
// after leave is called. The end of the test calls leave, too.
func Occupy(t testing.TB, st store.Store) (leave func()) {
	t.Helper()
	inside, goOn := make(chan error, 1), make(chan struct{})
	left := beside(func() error {
		return write(st, &work{run: func(*store.Transaction) error {
			inside <- nil
			<-goOn
			return errOwn
		}})
	})
	leave = sync.OnceFunc(func() {
		close(goOn)
		await(left)
	})
	t.Cleanup(leave)
	if err := await(inside); err != nil {
		t.Fatalf("a write does not begin: %v", err)
	}
	return leave
}

// queueing is a context that calls queued when a request waits in the queue of a store.Writer, since the request
// then calls Done.
type queueing struct {
	context.Context
	queued func()
}

func (c *queueing) Done() <-chan struct{} {
	c.queued()
	return c.Context.Done()
}

// Queue starts a call that writes to an occupied store, and returns when the write waits in the queue.
func Queue(ctx context.Context, t testing.TB, call func(ctx context.Context) error) (outcome <-chan error) {
	t.Helper()
	queued := make(chan error, 1)
	waits := &queueing{ctx, sync.OnceFunc(func() { queued <- nil })}
	outcome = beside(func() error { return call(waits) })
	if err := await(queued); err != nil {
		t.Fatalf("a write behind another does not wait for it: %v", err)
	}
	return outcome
}

// Together runs calls that write to a store in one batch, in this order, and returns their outcomes.
func Together(t testing.TB, st store.Store, calls ...func(ctx context.Context) error) (errs []error) {
	t.Helper()
	leave := Occupy(t, st)
	var outcomes []<-chan error
	for _, call := range calls {
		outcomes = append(outcomes, Queue(context.Background(), t, call))
	}
	leave()
	for _, outcome := range outcomes {
		errs = append(errs, await(outcome))
	}
	return errs
}

// together runs works in one batch.
func (s *scene) together(st store.Store, works ...*work) []error {
	s.Helper()
	var calls []func(ctx context.Context) error
	for _, w := range works {
		calls = append(calls, writing(st, w))
	}
	return Together(s.TB, st, calls...)
}

// writing returns a call that writes w.
func writing(st store.Store, w *work) func(ctx context.Context) error {
	return func(ctx context.Context) error { return st.Write(&store.Request{Ctx: ctx, Work: w}) }
}
