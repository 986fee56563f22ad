package postgres_test

import (
	"context"
	"database/sql/driver"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/router"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/store/postgres/postgrestest"
	"mailroom/orchestrator/transport"
	"mailroom/tracing"
)

// An interleaving is two operations of two processes at the same time, each with its own connection. Operation a
// stops at a place in its transaction. Then b does all of its work, or as much as it can while a is stopped. Then a
// continues.
type interleaving struct {
	name string

	// byLock is set if an advisory lock keeps the two apart: without the lock, the check must fail. Other
	// interleavings are correct by a unique index, a condition in the statement or a row lock, and must be correct
	// without advisory locks.
	byLock bool

	set  func(s *scene) // creates the records that a and b use
	skip int            // number of matching statements to skip
	// a stops before the first statement that contains at; if at is "", before the commit of its first transaction
	// that writes
	at    string
	a, b  func(s *scene) error // run by the engines of these names
	check func(s *scene)       // reports faults
}

// scene is a database with two engines.
type scene struct {
	*enginetest.Fixture // its engine is a, without stops
	ctx                 context.Context
	now                 func() time.Time
	a, b                *delivery.Engine
	place               *place
	errA, errB          error
	doneB               chan struct{}
	ids                 []string   // created by the set-up
	mu                  sync.Mutex // protects got
	got                 [2][]string
	faults              []string
}

// place is where a stops, once it is set.
type place struct {
	store.Store
	mu      sync.Mutex
	set     bool
	before  string
	skip    int
	reached chan struct{} // closed by a
	goOn    chan struct{} // closed to let a continue
}

func (p *place) arm(before string, skip int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.set, p.before, p.skip, p.reached, p.goOn = true, before, skip, make(chan struct{}), make(chan struct{})
}

// stop waits if this is the place, after all earlier statements have run.
func (p *place) stop(t *store.Transaction, statement string) error {
	p.mu.Lock()
	is := p.set && (p.before == "" && statement == "" || p.before != "" && strings.Contains(statement, p.before))
	if is && p.skip > 0 {
		p.skip--
		is = false
	}
	p.set = p.set && !is
	p.mu.Unlock()
	if !is {
		return nil
	}
	err := t.Flush()
	close(p.reached)
	<-p.goOn
	return err
}

// Write runs a request with a stop in it.
func (p *place) Write(q *store.Request) error {
	q.Work = stopping{q.Work, p}
	return p.Store.Write(q)
}

type stopping struct {
	store.Work
	place *place
}

func (w stopping) Run(t *store.Transaction) error {
	plain, before := t.Driver, t.Writes
	t.Driver = &watchedDriver{plain.(fullDriver), t, w.place}
	err := w.Work.Run(t)
	t.Driver = plain
	if err == nil && t.Writes > before {
		err = w.place.stop(t, "")
	}
	return err
}

// fullDriver has all methods of a connection of this store.
type fullDriver interface {
	store.Driver
	RunLater(text string, args []driver.NamedValue) error
	InsertLater(text string, args []driver.NamedValue) error
	RunRest() error
	SetBatch(seqs []int64)
	InsertBound(text string, args []driver.NamedValue) (int64, error)
}

type watchedDriver struct {
	fullDriver
	t     *store.Transaction
	place *place
}

func (d *watchedDriver) RunLater(text string, args []driver.NamedValue) error {
	if err := d.place.stop(d.t, text); err != nil {
		return err
	}
	return d.fullDriver.RunLater(text, args)
}

func (d *watchedDriver) InsertLater(text string, args []driver.NamedValue) error {
	if err := d.place.stop(d.t, text); err != nil {
		return err
	}
	return d.fullDriver.InsertLater(text, args)
}

func (d *watchedDriver) ExecBound(text string, args []driver.NamedValue) (driver.Result, error) {
	if err := d.place.stop(d.t, text); err != nil {
		return nil, err
	}
	return d.fullDriver.ExecBound(text, args)
}

func (d *watchedDriver) QueryBound(text string, args []driver.NamedValue) (driver.Rows, int, error) {
	if err := d.place.stop(d.t, text); err != nil {
		return nil, 0, err
	}
	return d.fullDriver.QueryBound(text, args)
}

// newScene creates a database on a server.
func newScene(t *testing.T, server string) *scene {
	clock := enginetest.NewClock()
	return newSceneAt(t, server, clock, clock.Now)
}

func newSceneAt(t *testing.T, server string, clock *enginetest.Clock, now func() time.Time) *scene {
	t.Helper()
	s := &scene{ctx: enginetest.Deadline(t), doneB: make(chan struct{}), now: now}
	s.Fixture = &enginetest.Fixture{T: t, Clock: clock, Wire: &enginetest.Scripted{}, Path: postgrestest.Place(server)}
	s.a, s.b = s.engine("a"), s.engine("b")
	s.Engine = s.a
	if _, err := s.a.Store.Create(); err != nil {
		t.Fatal(err)
	}
	s.place = &place{Store: s.a.Store}
	s.a.Store = s.place
	return s
}

// engine opens the database like another process.
func (s *scene) engine(name string) *delivery.Engine {
	e, err := router.Open(s.ctx, ledger.Options{
		Path: s.Path + "&application_name=" + s.session(name), Instance: name, Host: name, Now: s.now,
		Log: slog.New(slog.DiscardHandler), CountEvery: 3,
		Transports: map[string]orchestrator.Transport{"inbox": transport.Inbox{}, "wire": s.Wire, "push": s.Wire},
	})
	if err != nil {
		s.T.Fatal(err)
	}
	s.T.Cleanup(func() { e.Close() })
	return e
}

// rows runs a query and returns its rows, with columns separated by spaces.
func (s *scene) rows(query string, args ...any) (list []string) {
	s.T.Helper()
	err := s.b.Look(s.ctx, func(c *store.Conn) error {
		return c.Query(query, func(row store.Row) error {
			texts := make([]string, len(row))
			for i, value := range row {
				texts[i] = fmt.Sprint(value)
			}
			list = append(list, strings.Join(texts, " "))
			return nil
		}, args...)
	})
	if err != nil {
		s.T.Fatal(err)
	}
	return list
}

// byHand runs a statement like a program that does not use the engine.
func (s *scene) byHand(statement string) []string {
	s.T.Helper()
	rows, err := postgrestest.SQL(s.ctx, s.Path, statement)
	if err != nil {
		s.T.Fatal(err)
	}
	return rows
}

// waits reports whether a statement of b waits for the transaction of a.
func (s *scene) waits() bool {
	return len(s.rows(`
		SELECT 1 FROM pg_stat_activity a JOIN pg_stat_activity b ON a.pid = ANY(pg_blocking_pids(b.pid))
		WHERE a.application_name = ? AND a.state = 'idle in transaction' AND b.application_name = ?
			AND b.wait_event_type = 'Lock'`,
		s.session("a"), s.session("b"))) > 0
}

// session returns the name of an engine's sessions on the server, which must differ from those of other tests.
func (s *scene) session(engine string) string { return engine + s.Path[len(s.Path)-26:] }

// play runs an interleaving in its own database, and returns the faults.
func (i *interleaving) play(t *testing.T, server string) []string {
	s := newScene(t, server)
	i.set(s)
	s.place.arm(i.at, i.skip)
	doneA := make(chan struct{})
	orchestrator.GoSafe("a", nil, func() { defer close(doneA); s.errA = i.a(s) })
	select {
	case <-s.place.reached:
	case <-doneA:
		t.Fatalf("a did not come to its place: %v", s.errA)
	}
	orchestrator.GoSafe("b", nil, func() { defer close(s.doneB); s.errB = i.b(s) })
	for blocked := false; !blocked; {
		select {
		case <-s.doneB:
			blocked = true
		default:
			blocked = s.waits()
		}
	}
	close(s.place.goOn)
	for _, done := range []chan struct{}{doneA, s.doneB} {
		select {
		case <-done:
		case <-s.ctx.Done():
			t.Fatal("it does not end")
		}
	}
	i.check(s)
	s.checkTrace()
	return s.faults
}

// must records a fault unless is is true.
func (s *scene) must(is bool, format string, args ...any) {
	if !is {
		s.faults = append(s.faults, fmt.Sprintf(format, args...))
	}
}

// checkTrace compares the trace with the messages, and the counts with both.
func (s *scene) checkTrace() {
	last, made, delivered := map[string]string{}, map[string]int{}, map[string]int{}
	err := s.b.Look(s.ctx, func(c *store.Conn) error {
		return c.Query(`SELECT message_id, event, old_status, new_status FROM message_trace ORDER BY id`,
			func(row store.Row) error {
				id, event, old, now := row.Text(0), row.Text(1), row.Text(2), row.Text(3)
				s.must(last[id] == old, "%s: %s from %q, which was %q", id, event, old, last[id])
				last[id] = now
				switch tracing.EventName(event) {
				case tracing.Created, tracing.Adopted:
					made[id]++
				case tracing.Delivered:
					delivered[id]++
				}
				return nil
			})
	})
	if err != nil {
		s.T.Fatal(err)
	}
	for _, row := range s.rows(`SELECT message_id, status FROM agent_message`) {
		id, status, _ := strings.Cut(row, " ")
		s.must(last[id] == status, "%s is %s, and %q by its trace", id, status, last[id])
		s.must(made[id] == 1, "%s: %d events of its beginning", id, made[id])
		s.must(delivered[id] <= 1, "%s was delivered %d times", id, delivered[id])
	}
	wrong, err := ledger.ReadValue(s.ctx, s.b.Ledger, ledger.Miscounted)
	s.must(err == nil && len(wrong) == 0, "miscounted: %v %v", wrong, err)
}

// Each interleaving ends well. Those that are kept apart by a lock fail if the server's lock functions do nothing.
func TestInterleavings(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	lockless := withoutLocks(t, server)
	for _, i := range append(interleavingsOfMessages(),
		append(interleavingsOfRecords(), interleavingsOfHosts()...)...) {
		t.Run(i.name, func(t *testing.T) {
			t.Parallel()
			if faults := i.play(t, server); len(faults) > 0 {
				t.Errorf("%s", strings.Join(faults, "\n"))
			}
		})
		t.Run(i.name+", without locks", func(t *testing.T) {
			t.Parallel()
			switch faults := i.play(t, lockless); {
			case i.byLock && len(faults) == 0:
				t.Error("nothing is wrong without its lock")
			case !i.byLock && len(faults) > 0:
				t.Errorf("%s", strings.Join(faults, "\n"))
			default:
				t.Log(strings.Join(faults, "\n"))
			}
		})
	}
}

// withoutLocks creates another database on a server, in which the advisory locks of transactions have no effect, and
// returns its address.
func withoutLocks(t *testing.T, server string) string {
	t.Helper()
	lockless := strings.Replace(server, "/postgres?", "/lockless?", 1)
	statements := [][2]string{{server, `ALTER SYSTEM SET fsync = off`}, {server, `SELECT pg_reload_conf()`},
		{server, `CREATE DATABASE lockless`}}
	for name, returns := range map[string]string{"pg_advisory_xact_lock": "void",
		"pg_advisory_xact_lock_shared": "void", "pg_try_advisory_xact_lock": "boolean"} {
		does := map[string]string{"void": "SELECT", "boolean": "SELECT true"}[returns]
		statements = append(statements, [2]string{lockless, fmt.Sprintf(`
			ALTER FUNCTION pg_catalog.%[1]s(integer, integer) RENAME TO %[1]s_before;
			CREATE FUNCTION pg_catalog.%[1]s(integer, integer) RETURNS %[2]s LANGUAGE sql AS '%[3]s'`, name, returns,
			does)})
	}
	for _, s := range statements {
		if _, err := postgrestest.SQL(t.Context(), s[0], s[1]); err != nil {
			t.Fatal(err)
		}
	}
	return lockless
}
