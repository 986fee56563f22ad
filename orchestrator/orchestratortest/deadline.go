package orchestratortest

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"mailroom/orchestrator"
)

func obeysEndedContext(t *testing.T, f *office) {
	cause := errors.New("the process is stopping")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	ms := numbered("m", min(3, f.Transport.MaxBatch()))
	for i, err := range f.deliver(t, ctx, ms...) {
		if err == nil {
			t.Errorf("%s was delivered after the context had ended", ms[i].ID)
		}
	}
	f.mustArrive(t)
	f.mustDeliver(t, ms...)
	f.mustArrive(t, ms...)
}

// Watched is a context that detects when a goroutine begins to wait for its end.
type Watched struct {
	context.Context
	Cancel context.CancelFunc
	once   sync.Once
	asked  chan struct{}
}

// Watch returns a context that ends with the test or with Cancel.
func Watch(t *testing.T) *Watched {
	ctx, cancel := context.WithCancel(t.Context())
	return &Watched{Context: ctx, Cancel: cancel, asked: make(chan struct{})}
}

// Done returns the channel of the underlying context, and records that it was requested.
func (w *Watched) Done() <-chan struct{} {
	w.once.Do(func() { close(w.asked) })
	return w.Context.Done()
}

// Run calls do with the context in a goroutine, and returns as soon as do waits for the context's end or has
// returned. wait returns when do has returned.
func (w *Watched) Run(do func(ctx context.Context)) (wait func()) {
	over := w.start(do)
	select {
	case <-w.asked:
	case <-over:
	}
	return func() { <-over }
}

// start calls do with the context in a goroutine. over is closed when do has returned.
func (w *Watched) start(do func(ctx context.Context)) (over <-chan struct{}) {
	done := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		defer close(done)
		do(w)
	})
	return done
}

// untilWaiting calls do, which is blocked, and returns once do waits for the context's end. giveUp ends the context
// and returns when do has returned. If a transport does not react in time, untilWaiting calls release, so that the
// test can end.
func (f *office) untilWaiting(t *testing.T, release func(), do func(ctx context.Context)) (giveUp func()) {
	t.Helper()
	w := Watch(t)
	over := w.start(do)
	patience := time.NewTimer(cmp.Or(f.Patience, time.Minute))
	hung := func(what string) {
		t.Helper()
		release()
		<-over
		t.Fatal(what)
	}
	select {
	case <-w.asked:
	case <-over:
	case <-patience.C:
		hung("what is blocked does not look after its context")
	}
	return func() {
		t.Helper()
		w.Cancel()
		select {
		case <-over:
		case <-patience.C:
			hung("what is blocked does not come back when its context ends")
		}
	}
}

// givesUpWhenBlocked ends the context of a blocked attempt. The attempt must return and leave nothing behind.
func givesUpWhenBlocked(t *testing.T, f *office) {
	if f.Block == nil {
		return
	}
	release := f.Block(t)
	ms := numbered("m", min(3, f.Transport.MaxBatch()))
	var errs []error
	attempt := func(ctx context.Context) { errs = f.try(t, ctx, ms...) }
	giveUp := f.untilWaiting(t, release, attempt)
	f.mustArrive(t)
	giveUp()
	for i, err := range errs {
		if err == nil {
			t.Errorf("%s was delivered although nothing could get through", ms[i].ID)
		}
	}
	f.mustArrive(t)
	wait := Watch(t).Run(attempt)
	f.mustArrive(t)
	release()
	wait()
	for i, err := range errs {
		if err != nil {
			t.Errorf("%s, once released: %v", ms[i].ID, err)
		}
	}
	f.mustArrive(t, ms...)
}

func recoveryGivesUpWhenBlocked(t *testing.T, f *office) {
	if f.Block == nil {
		return
	}
	m := message("m", `1`)
	f.mustDeliver(t, m)
	release := f.Block(t)
	f.untilWaiting(t, release, func(ctx context.Context) {
		delivered, err := f.recover(t, ctx, m)
		if delivered || err == nil || errors.Is(err, orchestrator.ErrUndecidable) {
			t.Errorf("Recover: %v, %v; want an error after which it can be asked again", delivered, err)
		}
	})()
	release()
	f.mustRecover(t, m, true)
	f.mustArrive(t, m)
}
