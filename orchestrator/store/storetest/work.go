package storetest

import (
	"context"
	"sync"
	"sync/atomic"

	"mailroom/orchestrator/store"
)

// work is a request's work that is put together of functions; those that are nil do nothing.
type work struct {
	prepare, run func(t *store.Transaction) error
	ring         store.Ring

	runs    atomic.Int64 // how often it was run
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
func (w *work) Rings() *store.Ring { return &w.ring }
func (w *work) Durable()           { w.durable.Store(true) }

// adds is work that adds rows.
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

// write does work for which nobody stops to wait.
func write(st store.Store, w *work) error {
	return st.Write(&store.Request{Ctx: context.Background(), Work: w})
}

// occupied begins a batch that writes nothing. What comes while it is under way is the next batch, once leave is called.
func (s *scene) occupied(st store.Store) (leave func()) {
	s.Helper()
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
	s.Cleanup(leave)
	if err := await(inside); err != nil {
		s.Fatalf("a write does not begin: %v", err)
	}
	return leave
}

// queueing is a context that tells when a request waits in the queue of a store.Writer: it asks then for the context's end.
type queueing struct {
	context.Context
	queued func()
}

func (c *queueing) Done() <-chan struct{} {
	c.queued()
	return c.Context.Done()
}

// queue asks for work while a batch is under way, and returns when it waits for that to end.
func (s *scene) queue(ctx context.Context, st store.Store, w store.Work) (outcome <-chan error) {
	s.Helper()
	queued := make(chan error, 1)
	waits := &queueing{ctx, sync.OnceFunc(func() { queued <- nil })}
	outcome = beside(func() error { return st.Write(&store.Request{Ctx: waits, Work: w}) })
	if err := await(queued); err != nil {
		s.Fatalf("a write behind another does not wait for it: %v", err)
	}
	return outcome
}

// together does work in one batch, in this order, and returns the outcomes.
func (s *scene) together(st store.Store, works ...*work) (errs []error) {
	s.Helper()
	leave := s.occupied(st)
	var outcomes []<-chan error
	for _, w := range works {
		outcomes = append(outcomes, s.queue(context.Background(), st, w))
	}
	leave()
	for _, outcome := range outcomes {
		errs = append(errs, await(outcome))
	}
	return errs
}
