package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// codes checks errors of the store, errors of the caller and nil errors.
func codes(s *scene) {
	st := s.opened()
	nothing := func(*store.Conn) error { return nil }
	s.wantCode("reading where no database is", st.Read(s.Context(), nothing), orchestrator.Unavailable)
	s.wantCode("looking where no database is", st.Look(s.Context(), nothing), orchestrator.Unavailable)
	if _, err := st.Create(); err != nil {
		s.Fatalf("creating: %v", err)
	}
	if err := st.Ready(s.Context()); err != nil {
		s.Errorf("ready: %v", err)
	}
	s.wantCode("ready under a context that has ended", st.Ready(ended(s.Context(), errOwn)), orchestrator.Busy)
	coded := orchestrator.Errorf(orchestrator.NotFound, "not there")
	for _, err := range []error{nil, errOwn, coded} {
		if got := st.Explain(err); got != err {
			s.Errorf("%v is explained as %v", err, got)
		}
		fails := func(*store.Conn) error { return err }
		read, look := st.Read(s.Context(), fails), st.Look(s.Context(), fails)
		wrote := write(st, &work{run: func(*store.Transaction) error { return err }})
		if read != err || look != err || wrote != err {
			s.Errorf("%v came back as %v from Read, %v from Look and %v from Write", err, read, look, wrote)
		}
	}
	if st.Path() == "" {
		s.Errorf("the database has no name")
	}
}

// rings writes while another process listens. That process sees the row when it receives the ring.
func rings(s *scene) {
	st := s.made()
	listener := s.process("listen")
	listener.Expect("listening <nil>")
	listener.Say("row")
	listener.Expect("row: waiting")
	loud := adds("1")
	loud.ring.Add([]string{"writer", "coder"})
	if err := write(st, loud); err != nil {
		s.Errorf("a write that rings: %v", err)
	}
	listener.Expect("row: heard")
}

// named rings the bell directly for another process that listens.
func named(s *scene) {
	st := s.made()
	listener := s.process("listen")
	listener.Expect("listening <nil>")
	listener.Say("named")
	var heard string
	answer := beside(func() error {
		heard = <-listener.Lines
		return nil
	})
	s.eventually(func() bool { // a ring is lost if an earlier one has not been received
		st.Bell().Ring("coder")
		return len(answer) > 0
	})
	if err := await(answer); err != nil || heard != "named: heard" {
		s.Errorf("another process that listens: %q, %v", heard, err)
	}
}

// stopped listens in this process and then stops.
func stopped(s *scene) {
	bell := s.made().Bell()
	coder, stop, err := bell.Listen(s.Context(), "coder")
	if err != nil {
		s.Fatalf("listening: %v", err)
	}
	defer stop()
	all, stopAll, err := bell.Listen(s.Context(), "")
	if err != nil {
		s.Fatalf("listening: %v", err)
	}
	defer stopAll()
	rung := func(rings <-chan bool) bool {
		select {
		case <-rings:
			return true
		case <-time.After(patience):
			return false
		}
	}
	named := s.eventually(func() bool {
		bell.Ring("coder")
		return rung(coder)
	})
	if !named || !rung(all) {
		s.Errorf("a ring for coder was not heard by all that listen")
	}
	bell.Ring()
	if !rung(coder) || !rung(all) {
		s.Errorf("a ring for everybody was not heard by all that listen")
	}
	stop()
	stop()
	for len(coder) > 0 {
		<-coder
	}
	bell.Ring("coder")
	if !rung(all) || len(coder) > 0 {
		s.Errorf("after one stopped to listen, it still hears, or the other does not")
	}
	if _, _, err := bell.Listen(ended(s.Context(), errOwn), ""); !errors.Is(err, errOwn) {
		s.Errorf("listening under a context that has ended: %v", err)
	}
}

// leases checks a lease while its process runs, while that process is stopped, and after it was killed. A store that
// puts nothing into a token cannot detect dead processes.
func leases(s *scene) {
	st := s.made()
	holder := s.process("lease")
	token := <-holder.Lines
	if !strings.HasSuffix(token, "id") {
		s.Fatalf("the token of a lease is %q", token)
	}
	own := st.Token("own")
	for what, alive := range map[string]string{"another process": token, "this process": own, "nobody known": "id",
		"nobody": ""} {
		if st.Gone(alive) {
			s.Errorf("the lease of %s is gone", what)
		}
	}
	if st.Token("own") != own || st.Token("other") == own {
		s.Errorf("tokens are not one to one with ids")
	}
	holder.Stop()
	if st.Gone(token) {
		s.Errorf("the lease of a process that is stopped is gone")
	}
	holder.Kill()
	if token != "id" && !s.eventually(func() bool { return st.Gone(token) }) {
		s.Errorf("the lease of a process that was killed is not gone")
	}
}

// eventually reports whether a condition becomes true in time.
func (s *scene) eventually(is func() bool) bool {
	tick, late := time.NewTicker(time.Millisecond), time.After(patience)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-late:
			return false
		}
	}
	return true
}

// creating creates a database with several stores, and again with the same store. Reading does not create one.
func creating(s *scene) {
	st := s.opened()
	if st.Exists() || !st.NoneYet() {
		s.Errorf("before the first: exists %t, none yet %t", st.Exists(), st.NoneYet())
	}
	_ = st.Read(s.Context(), func(*store.Conn) error { return nil }) // fails, see codes
	if st.Exists() || !st.NoneYet() {
		s.Errorf("after a reader: exists %t, none yet %t", st.Exists(), st.NoneYet())
	}
	if created, err := st.Create(); !created || err != nil {
		s.Errorf("creating: %t, %v", created, err)
	}
	for what, st := range map[string]store.Store{"the same store": st, "another store": s.opened()} {
		if !st.Exists() || st.NoneYet() {
			s.Errorf("%s: exists %t, none yet %t", what, st.Exists(), st.NoneYet())
		}
		if created, err := st.Create(); created || err != nil {
			s.Errorf("creating by %s: %t, %v", what, created, err)
		}
	}
	if err := write(st, adds("1")); err != nil {
		s.Errorf("writing: %v", err)
	}
	s.wantRows(s.opened(), "1")
}

// closing closes a store while a request runs. That request is answered first, and later requests are refused.
func closing(s *scene) {
	st := s.made()
	inside, goOn := make(chan error, 1), make(chan struct{})
	leave := sync.OnceFunc(func() { close(goOn) })
	s.Cleanup(leave)
	var ran atomic.Bool
	wrote := beside(func() error {
		return write(st, &work{run: func(t *store.Transaction) error {
			inside <- nil
			<-goOn
			ran.Store(true)
			return add(t, "last")
		}})
	})
	if err := await(inside); err != nil {
		s.Fatalf("a write does not begin: %v", err)
	}
	closed := beside(func() error {
		err := st.Close()
		if !ran.Load() {
			err = fmt.Errorf("it did not wait for a write; %v", err)
		}
		return err
	})
	refused := s.eventually(func() bool { // while the store is open, the context ends first
		soon, cancel := context.WithTimeout(s.Context(), time.Millisecond)
		defer cancel()
		return orchestrator.CodeOf(writing(st, adds("late"))(soon)) == orchestrator.Unavailable || len(closed) > 0
	})
	leave()
	if !refused {
		s.Errorf("a store that is being closed still takes requests")
	}
	if err := await(closed); err != nil {
		s.Errorf("closing: %v", err)
	}
	if err := await(wrote); err != nil {
		s.Errorf("the write that was under way: %v", err)
	}
	s.wantCode("a write after the last", write(st, adds("late")), orchestrator.Unavailable)
	s.wantRows(s.opened(), "last")
}
