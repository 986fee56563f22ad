package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// durable kills a process that writes, and checks that every answered write is there. It also checks that Durable is
// called before the write returns, unless the work failed.
func durable(s *scene) {
	st := s.made()
	writer := s.process("write")
	var answered []string
	for i := range 20 {
		key := fmt.Sprintf("%02d", i)
		writer.Say(key)
		writer.Expect("wrote " + key + " <nil>")
		answered = append(answered, key)
	}
	writer.Kill()
	s.wantRows(st, answered...)
	s.wantRows(s.opened(), answered...)

	kept, failed := adds("kept"), &work{run: func(*store.Transaction) error { return errOwn }}
	if err := write(st, kept); err != nil || !kept.durable.Load() {
		s.Errorf("a write returned %v; work told that it is durable: %t", err, kept.durable.Load())
	}
	if err := write(st, failed); !errors.Is(err, errOwn) || failed.durable.Load() {
		s.Errorf("a write that failed returned %v; work told that it is durable: %t", err, failed.durable.Load())
	}
}

// unfinished kills a process within a transaction. Others can write at once.
func unfinished(s *scene) {
	st := s.made()
	writer := s.process("hold")
	writer.Expect("inside")
	writer.Kill()
	s.wantRows(st)
	if err := write(st, adds("next")); err != nil {
		s.Errorf("the next write: %v", err)
	}
	s.wantRows(st, "next")
}

// whole reads from within a transaction that has written: its rows are visible only after the commit.
func whole(s *scene) {
	st, other := s.made(), s.opened()
	half := &work{run: func(t *store.Transaction) error {
		if err := add(t, "1"); err != nil {
			return err
		}
		s.wantRows(st)
		s.wantRows(other)
		return add(t, "2")
	}}
	if err := write(st, half); err != nil {
		s.Errorf("the write: %v", err)
	}
	s.wantRows(st, "1", "2")
	s.wantRows(other, "1", "2")
}

// failures makes one request of a batch fail, with an error or a panic, at each place and after 0 to 2 rows. The
// changes of that request are undone, and those of the other requests are not.
func failures(s *scene) {
	st := s.made()
	for what, fail := range map[string]func() error{"error": func() error { return errOwn },
		"panic": func() error { panic(errOwn) }} {
		for place := range 4 {
			for wrote := range 3 {
				bad := adds([]string{"x", "y"}[:wrote]...)
				adding := bad.run
				bad.run = func(t *store.Transaction) error { return errors.Join(adding(t), fail()) }
				works := slices.Insert([]*work{adds("a"), adds("b", "c"), adds("d")}, place, bad)
				for i, err := range s.together(st, works...) {
					own := errors.Is(err, errOwn) || what == "panic" &&
						orchestrator.CodeOf(err) == orchestrator.Internal && err != errNever
					if i == place && !own || i != place && err != nil {
						s.Errorf("%s at place %d behind %d rows: request %d got %v", what, place, wrote, i, err)
					}
				}
				s.wantRows(st, "a", "b", "c", "d")
				if s.Failed() {
					return
				}
				s.clear(st)
			}
		}
	}
}

// clear deletes all rows.
func (s *scene) clear(st store.Store) {
	s.Helper()
	err := write(st, &work{run: func(t *store.Transaction) error {
		return t.Run(`DELETE FROM settings WHERE key LIKE 'storetest.%'`)
	}})
	if err != nil {
		s.Fatalf("deleting the rows: %v", err)
	}
}

// apart makes the database reject part of a request's work, in a request that is alone and in a batch. The work
// before and after that part is kept.
func apart(s *scene) {
	st := s.made()
	partly := func(name string) *work {
		return &work{run: func(t *store.Transaction) error {
			if err := add(t, name+" before"); err != nil {
				return err
			}
			failure, err := t.Savepoint(func() error {
				if err := add(t, name+" undone"); err != nil {
					return err
				}
				return add(t, name+" before") // exists already
			})
			if err != nil {
				return err
			}
			if failure == nil {
				return errors.New("a second row with the same key")
			}
			return add(t, name+" after")
		}}
	}
	for i, err := range append(s.together(st, partly("b"), partly("c")), write(st, partly("a"))) {
		if err != nil {
			s.Errorf("request %d: %v", i, err)
		}
	}
	s.wantRows(st, "a after", "a before", "b after", "b before", "c after", "c before")
}

// hooks makes transactions fail at each place outside the requests. Nothing of any request is kept.
func hooks(s *scene) {
	s.made()
	begun, beginning, ending := 0, error(nil), error(nil)
	st := s.openedWith(Options{
		Begin: func(t *store.Transaction) error {
			t.Shared = "shared"
			if begun++; begun == 1 { // the request that occupies the store, so that the next batch has two requests
				return nil
			}
			return beginning
		},
		End: func(*store.Transaction) error { return ending },
	})
	sees := func(key string) *work {
		w := adds(key)
		adding := w.run
		w.run = func(t *store.Transaction) error {
			if t.Shared != "shared" {
				return fmt.Errorf("begin shared %v", t.Shared)
			}
			return adding(t)
		}
		return w
	}
	for place, fail := range map[string]func(w *work){
		"begin":   func(*work) { beginning = errOwn },
		"end":     func(*work) { ending = errOwn },
		"prepare": func(w *work) { w.prepare = func(*store.Transaction) error { return errOwn } },
	} {
		first, second := sees("1"), sees("2")
		fail(second)
		begun = 0
		for i, err := range s.together(st, first, second) {
			if !errors.Is(err, errOwn) {
				s.Errorf("%s fails: request %d got %v", place, i, err)
			}
		}
		beginning, ending = nil, nil
		s.wantRows(st)
	}
	for i, err := range s.together(st, sees("1"), sees("2")) {
		if err != nil {
			s.Errorf("nothing fails: request %d got %v", i, err)
		}
	}
	s.wantRows(st, "1", "2")
}

// alone holds a transaction in another process. A write waits meanwhile, is refused as busy when its own time or
// that of the store is up, and finally sees the rows of the other process.
func alone(s *scene) {
	st, hurried := s.made(), s.openedWith(Options{BusyTimeout: patience / 20})
	other := s.process("hold")
	other.Expect("inside")
	soon, cancel := context.WithTimeout(s.Context(), patience/20)
	defer cancel()
	s.wantCode("a write whose time was up", writing(st, adds("1"))(soon), orchestrator.Busy)
	s.wantCode("a write through a store whose time was up", write(hurried, adds("2")), orchestrator.Busy)
	waits := beside(func() error {
		return write(st, &work{run: func(t *store.Transaction) error {
			n, err := t.Number(rowCount)
			if err == nil && n != 2 {
				err = fmt.Errorf("it sees %d rows of the other process; want 2", n)
			}
			return errors.Join(err, add(t, "later"))
		}})
	})
	other.Say("go on")
	other.Expect("wrote <nil>")
	if err := await(waits); err != nil {
		s.Errorf("a write that waited: %v", err)
	}
	s.wantRows(st, "held 1", "held 2", "later")
}

// withdrawn ends contexts before, during and after the wait of a request in the queue.
func withdrawn(s *scene) {
	st := s.made()
	early := adds("early")
	err := writing(st, early)(ended(s.Context(), errOwn))
	if s.wantCode("a write under a context that has ended", err, orchestrator.Busy); !errors.Is(err, errOwn) ||
		early.runs.Load() != 0 {
		s.Errorf("it was run %d times and got %v; the cause is missing", early.runs.Load(), err)
	}
	leave := Occupy(s.TB, st)
	ctx, cancel := context.WithCancelCause(s.Context())
	queued := adds("queued")
	outcome := Queue(ctx, s.TB, writing(st, queued))
	cancel(errOwn)
	err = await(outcome)
	if s.wantCode("a write whose context ended in the queue", err, orchestrator.Busy); !errors.Is(err, errOwn) ||
		queued.runs.Load() != 0 {
		s.Errorf("it was run %d times and got %v; the cause is missing", queued.runs.Load(), err)
	}
	ctx, cancel = context.WithCancelCause(s.Context())
	outcome = Queue(ctx, s.TB, writing(st, &work{run: func(t *store.Transaction) error {
		cancel(errOwn)
		return add(t, "taken")
	}}))
	leave()
	if err := await(outcome); err != nil {
		s.Errorf("a write whose context ended while it ran: %v", err)
	}
	s.wantRows(st, "taken")
}
