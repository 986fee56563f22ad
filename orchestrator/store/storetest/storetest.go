// Package storetest contains the tests that every store must pass. Each test checks a promise of package store with
// the store's public methods, rows of settings, and other processes, some of which are killed.
//
// The package of a store calls Exercise from a test, and Helpers from its TestHelperProcess. Other tests also use
// Occupy, Queue and Together, which control what is written in one batch. The tests of this package plant faults in
// a store and check that each promise is found broken.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/orchestratortest/helper"
	"mailroom/orchestrator/store"
)

// Options configures a store for Exercise. The store's package chooses everything else; the bell must reach other
// processes.
type Options struct {
	Address     string        // of the database, as returned by place
	BusyTimeout time.Duration // limits the wait for locks of another process

	// Begin is called at the beginning of each write transaction, and End before its commit. An error ends the
	// transaction.
	Begin, End func(t *store.Transaction) error
}

// Open opens a store. It is also called in other processes.
type Open func(o Options) (store.Store, error)

// Exercise tests a kind of store. place returns an address at which no database has ever existed. The tests create a
// database there, and place must remove it after the test. except lists promises that this kind of store does not
// keep.
func Exercise(t *testing.T, place func(t testing.TB) string, open Open, except ...string) {
	for _, p := range promises {
		if slices.Contains(except, p.says) {
			continue
		}
		t.Run(p.says, func(t *testing.T) {
			t.Parallel()
			p.check(&scene{TB: t, address: place(t), open: open})
		})
	}
}

// RingNames is a promise that does not hold if processes only poll for work.
const RingNames = "a ring says whom it is for"

// promise is a promise of a store and the test that fails if the promise is broken.
type promise struct {
	says  string
	check func(s *scene)
}

var promises = []promise{
	{"an answered write outlives its process", durable},
	{"of an unfinished write nothing remains", unfinished},
	{"nobody sees half a write", whole},
	{"a failure in a batch is its own", failures},
	{"a failure apart undoes what was done apart", apart},
	{"hooks and preparations can fail a transaction", hooks},
	{"one process writes at a time", alone},
	{"a context that ends withdraws what waits", withdrawn},
	{"readers wait for a place as long as their context lasts", places},
	{"a reader sees one state", oneState},
	{"a look sees the latest state", latest},
	{"statements return what they did", statements},
	{"errors have their codes", codes},
	{"a ring reaches other processes", rings},
	{RingNames, named},
	{"who stopped to listen hears nothing", stopped},
	{"the leases of the dead are gone, and no others", leases},
	{"a database is made once", creating},
	{"closing waits for what is being written", closing},
}

// patience is the time limit for operations that normally take milliseconds.
var patience = 10 * time.Second

// scene is one test with a database of its own. Other processes get the address of that database.
type scene struct {
	testing.TB
	address string
	open    Open
}

// opened opens the database until the end of the test.
func (s *scene) opened() store.Store { return s.openedWith(Options{}) }

// openedWith opens the database with options. A zero field means the usual value.
func (s *scene) openedWith(o Options) store.Store {
	s.Helper()
	st, err := s.open(usual(o, s.address))
	if err != nil {
		s.Fatalf("opening: %v", err)
	}
	s.Cleanup(func() { st.Close() })
	return st
}

// usual sets the address, and the usual values for fields of options that are zero.
func usual(o Options, address string) Options {
	nothing := func(*store.Transaction) error { return nil }
	o.Address = address
	if o.BusyTimeout == 0 {
		o.BusyTimeout = patience
	}
	if o.Begin == nil {
		o.Begin = nothing
	}
	if o.End == nil {
		o.End = nothing
	}
	return o
}

// made creates the database and opens it until the end of the test.
func (s *scene) made() store.Store {
	s.Helper()
	st := s.opened()
	if _, err := st.Create(); err != nil {
		s.Fatalf("creating: %v", err)
	}
	return st
}

// process starts another process that opens the database, see Helpers.
func (s *scene) process(does string) *helper.Process {
	s.Helper()
	return helper.Start(s.TB, helperPrefix+does, s.address)
}

// add adds a row to settings.
func add(t *store.Transaction, key string) error {
	_, err := t.Exec(`INSERT INTO settings (key, value, updated_at) VALUES (?1, '', '')`, rowPrefix+key)
	return err
}

const (
	rowPrefix = "storetest."
	rowCount  = `SELECT count(*) FROM settings WHERE key LIKE 'storetest.%'`
	rowKeys   = `SELECT substr(key, 11) FROM settings WHERE key LIKE 'storetest.%' ORDER BY key`
)

// wantRows checks that the database contains exactly these rows, in the order of their keys.
func (s *scene) wantRows(st store.Store, want ...string) {
	s.Helper()
	err := st.Read(s.Context(), func(c *store.Conn) error {
		got, err := c.Texts(rowKeys)
		if err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("the rows are %q; want %q", got, want)
		}
		return err
	})
	if err != nil {
		s.Errorf("%v", err)
	}
}

// wantCode checks the code of an error.
func (s *scene) wantCode(what string, err error, want orchestrator.Code) {
	s.Helper()
	if err == nil || orchestrator.CodeOf(err) != want {
		s.Errorf("%s: %v; want code %s", what, err, want)
	}
}

// errOwn is the failure of a test's own work.
var errOwn = errors.New("its own fault")

// errNever is the error of an answer that did not come in time.
var errNever = errors.New("no answer")

// await returns the error received from a channel, or errNever.
func await(outcome <-chan error) error {
	select {
	case err := <-outcome:
		return err
	case <-time.After(patience):
		return errNever
	}
}

// beside runs f in a new goroutine.
func beside(f func() error) <-chan error {
	outcome := make(chan error, 1)
	orchestrator.GoSafe("storetest", nil, func() { outcome <- f() })
	return outcome
}

// ended returns a context that has already ended with a cause.
func ended(ctx context.Context, cause error) context.Context {
	over, cancel := context.WithCancelCause(ctx)
	cancel(cause)
	return over
}
