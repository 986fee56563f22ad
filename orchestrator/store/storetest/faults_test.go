package storetest

import (
	"context"
	"database/sql/driver"
	"errors"
	"strings"
	"sync"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/store/sqlite"
)

// fault is a way in which a store may break a promise.
type fault struct {
	says    string
	breaks  string // the promise
	shows   string // part of the error that its test then reports
	options func(o *sqlite.Options)
	plant   func(s store.Store) store.Store
}

var faults = []fault{
	{says: "writes when it is closed", breaks: "an answered write outlives its process", shows: "the rows are []",
		plant: func(s store.Store) store.Store { return &writesLate{Store: s} }},
	{says: "answers before the disk has it", breaks: "an answered write outlives its process",
		shows: "work told that it is durable: false",
		plant: func(s store.Store) store.Store { return &syncsLate{Store: s} }},
	{says: "commits each statement", breaks: "of an unfinished write nothing remains",
		shows: `the rows are ["held 1"]; want []`, plant: committing},
	{says: "shows each statement", breaks: "nobody sees half a write", shows: `the rows are ["1"]; want []`,
		plant: committing},
	{says: "keeps what a failed request wrote", breaks: "a failure in a batch is its own", shows: `"x"`,
		plant: func(s store.Store) store.Store { return &keepsFailed{s} }},
	{says: "loses neighbours of a failed request", breaks: "a failure in a batch is its own",
		shows: `the rows are ["b" "c" "d"]`,
		plant: func(s store.Store) store.Store { return &runsOnce{Store: s} }},
	{says: "undoes nothing", breaks: "a failure apart undoes what was done apart", shows: `"a undone"`,
		plant: driving(func(d store.Driver) store.Driver { return keepsAll{d} })},
	{says: "commits when the end fails", breaks: "hooks and preparations can fail a transaction",
		shows:   "end fails: request 0 got <nil>",
		options: func(o *sqlite.Options) { o.End = func(*store.Transaction) error { return nil } }},
	{says: "holds no lock between statements", breaks: "one process writes at a time", shows: "<nil>; want code busy",
		plant: committing},
	{says: "writes under contexts that have ended", breaks: "a context that ends withdraws what waits",
		shows: "a write under a context that has ended: <nil>",
		plant: func(s store.Store) store.Store { return writesOn{s} }},
	{says: "has readers wait for ever", breaks: "readers wait for a place as long as their context lasts",
		shows: "the others still wait",
		plant: func(s store.Store) store.Store { return readsOn{s} }},
	{says: "reads without a snapshot", breaks: "a reader sees one state", shows: "it sees 0 rows and then 2",
		plant: func(s store.Store) store.Store { return onlyLooks{s} }},
	{says: "looks at a snapshot", breaks: "a look sees the latest state", shows: "its second 0",
		plant: func(s store.Store) store.Store { return onlyReads{s} }},
	{says: "counts no updates", breaks: "statements return what they did", shows: "0 and 0 changed",
		plant: driving(func(d store.Driver) store.Driver { return uncounting{d, "UPDATE "} })},
	{says: "counts no inserts", breaks: "statements return what they did", shows: "a trigger dropped the row",
		plant: driving(func(d store.Driver) store.Driver { return uncounting{d, "INSERT "} })},
	{says: "calls every error internal", breaks: "errors have their codes", shows: "its own fault is explained as",
		plant: func(s store.Store) store.Store { return explainsAll{s} }},
	{says: "never rings", breaks: "a ring reaches other processes", shows: "not heard",
		plant: func(s store.Store) store.Store { return otherBell{s, silent{}} }},
	{says: "rings in its own process", breaks: "a ring reaches other processes", shows: "not heard",
		options: func(o *sqlite.Options) { o.Bell = store.NewLocalBell() }},
	{says: "says of no ring whom it is for", breaks: RingNames, shows: "not heard",
		plant: func(s store.Store) store.Store { return otherBell{s, nameless{s.Bell()}} }},
	{says: "never stops ringing", breaks: "who stopped to listen hears nothing", shows: "it still hears",
		plant: func(s store.Store) store.Store { return otherBell{s, endless{s.Bell()}} }},
	{says: "takes the living for dead", breaks: "the leases of the dead are gone, and no others",
		shows: "the lease of another process is gone",
		plant: func(s store.Store) store.Store { return allGone{s} }},
	{says: "takes the dead for living", breaks: "the leases of the dead are gone, and no others",
		shows: "the lease of a process that was killed is not gone",
		plant: func(s store.Store) store.Store { return noneGone{s} }},
	{says: "always creates", breaks: "a database is made once", shows: "creating by another store: true",
		plant: func(s store.Store) store.Store { return alwaysCreates{s} }},
	{says: "creates to read", breaks: "a database is made once", shows: "after a reader: exists true",
		plant: func(s store.Store) store.Store { return readCreates{s} }},
	{says: "closes when it is asked twice", breaks: "closing waits for what is being written",
		shows: "it did not wait for a write",
		plant: func(s store.Store) store.Store { return &closesTwice{Store: s} }},
}

// writesLate answers before it writes.
type writesLate struct {
	store.Store
	mu   sync.Mutex
	late []*store.Request
}

func (s *writesLate) Write(q *store.Request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = append(s.late, q)
	return nil
}

func (s *writesLate) Close() error {
	for _, q := range s.late {
		_ = s.Store.Write(q)
	}
	return s.Store.Close()
}

// syncsLate calls Durable only when it is closed.
type syncsLate struct {
	store.Store
	mu   sync.Mutex
	late []func()
}

type syncedLate struct {
	store.Work
	by *syncsLate
}

func (w syncedLate) Durable() {
	w.by.mu.Lock()
	defer w.by.mu.Unlock()
	w.by.late = append(w.by.late, w.Work.Durable)
}

func (s *syncsLate) Write(q *store.Request) error {
	q.Work = syncedLate{q.Work, s}
	return s.Store.Write(q)
}

func (s *syncsLate) Close() error {
	for _, durable := range s.late {
		durable()
	}
	return s.Store.Close()
}

// worksOtherwise runs work in its own way.
type worksOtherwise struct {
	store.Store
	run func(w store.Work, t *store.Transaction) error
}

type otherwise struct {
	store.Work
	run func(w store.Work, t *store.Transaction) error
}

func (w otherwise) Run(t *store.Transaction) error { return w.run(w.Work, t) }

func (s worksOtherwise) Write(q *store.Request) error {
	q.Work = otherwise{q.Work, s.run}
	return s.Store.Write(q)
}

func working(run func(w store.Work, t *store.Transaction) error) func(s store.Store) store.Store {
	return func(s store.Store) store.Store { return worksOtherwise{s, run} }
}

// keepsFailed returns the failure to the caller but commits the transaction.
type keepsFailed struct{ store.Store }

func (s *keepsFailed) Write(q *store.Request) error {
	var failure error
	err := working(func(w store.Work, t *store.Transaction) error {
		failure = w.Run(t)
		return nil
	})(s.Store).Write(q)
	return errors.Join(failure, err)
}

// runsOnce does nothing for work that runs again after a success.
type runsOnce struct{ store.Store }

func (s *runsOnce) Write(q *store.Request) error {
	well := false
	return working(func(w store.Work, t *store.Transaction) error {
		if well {
			return nil
		}
		err := w.Run(t)
		well = err == nil
		return err
	})(s.Store).Write(q)
}

// driving returns a store that runs work with another driver.
func driving(by func(d store.Driver) store.Driver) func(s store.Store) store.Store {
	return working(func(w store.Work, t *store.Transaction) error {
		own := t.Driver
		defer func() { t.Driver = own }()
		t.Driver = by(own)
		return w.Run(t)
	})
}

// committing commits each statement of a transaction, and releases the lock.
var committing = driving(func(d store.Driver) store.Driver { return commits{d} })

type commits struct{ store.Driver }

func (d commits) ExecBound(query string, args []driver.NamedValue) (driver.Result, error) {
	result, err := d.Driver.ExecBound(query, args)
	return result, errors.Join(err, d.Script("COMMIT; BEGIN"))
}

// keepsAll does not roll back to a savepoint.
type keepsAll struct{ store.Driver }

func (d keepsAll) ExecBound(query string, args []driver.NamedValue) (driver.Result, error) {
	if query == "ROLLBACK TO apart" {
		return driver.RowsAffected(0), nil
	}
	return d.Driver.ExecBound(query, args)
}

// uncounting reports no changed rows for statements with a given verb.
type uncounting struct {
	store.Driver
	verb string
}

type uncounted struct{ driver.Result }

func (uncounted) RowsAffected() (int64, error) { return 0, nil }

func (d uncounting) ExecBound(query string, args []driver.NamedValue) (driver.Result, error) {
	result, err := d.Driver.ExecBound(query, args)
	if strings.HasPrefix(strings.TrimSpace(query), d.verb) {
		return uncounted{result}, err
	}
	return result, err
}

// unending is a context that never ends, whatever its parent does.
type unending struct{ context.Context }

func (unending) Err() error { return nil }
func (c unending) Done() <-chan struct{} {
	c.Context.Done() // a waiting request calls Done
	return nil
}

type writesOn struct{ store.Store }

func (s writesOn) Write(q *store.Request) error {
	q.Ctx = unending{q.Ctx}
	return s.Store.Write(q)
}

type readsOn struct{ store.Store }

func (s readsOn) Read(ctx context.Context, fn func(c *store.Conn) error) error {
	return s.Store.Read(unending{ctx}, fn)
}

type onlyLooks struct{ store.Store }

func (s onlyLooks) Read(ctx context.Context, fn func(c *store.Conn) error) error {
	return s.Look(ctx, fn)
}

type onlyReads struct{ store.Store }

func (s onlyReads) Look(ctx context.Context, fn func(c *store.Conn) error) error {
	return s.Read(ctx, fn)
}

type explainsAll struct{ store.Store }

func (explainsAll) Explain(err error) error {
	if err == nil {
		return nil
	}
	return orchestrator.Errorf(orchestrator.Internal, "%v", err)
}

type otherBell struct {
	store.Store
	bell orchestrator.Bell
}

func (s otherBell) Bell() orchestrator.Bell { return s.bell }

type silent struct{}

func (silent) Ring(...string) {}
func (silent) Listen(context.Context, string) (<-chan bool, func(), error) {
	return make(chan bool), func() {}, nil
}

type nameless struct{ orchestrator.Bell }

func (b nameless) Ring(...string) { b.Bell.Ring() }

type endless struct{ orchestrator.Bell }

func (b endless) Listen(ctx context.Context, recipient string) (<-chan bool, func(), error) {
	rings, _, err := b.Bell.Listen(ctx, recipient)
	return rings, func() {}, err
}

type allGone struct{ store.Store }

func (s allGone) Gone(token string) bool { return true }

type noneGone struct{ store.Store }

func (s noneGone) Gone(token string) bool { return false }

type alwaysCreates struct{ store.Store }

func (s alwaysCreates) Create() (bool, error) {
	_, err := s.Store.Create()
	return true, err
}

type readCreates struct{ store.Store }

func (s readCreates) Read(ctx context.Context, fn func(c *store.Conn) error) error {
	_, err := s.Create()
	return errors.Join(err, s.Store.Read(ctx, fn))
}

// closesTwice does not close at the first call.
type closesTwice struct {
	store.Store
	asked bool
}

func (s *closesTwice) Close() error {
	if !s.asked {
		s.asked = true
		return nil
	}
	return s.Store.Close()
}
