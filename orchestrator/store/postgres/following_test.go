package postgres_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/store/postgres/postgrestest"
	"mailroom/orchestrator/traffic"
	"mailroom/orchestrator/transport"
)

// engine opens a database on a server with its own bell, like another process.
func engine(t *testing.T, address string) *delivery.Engine {
	t.Helper()
	return enginetest.OpenWith(t, ledger.Options{
		Path: address, Bell: store.NewLocalBell(), BusyTimeout: 30 * time.Second,
		Transports: map[string]orchestrator.Transport{"inbox": transport.Inbox{}},
	})
}

// made creates a database at an address with these agents and their inbox views.
func made(t *testing.T, address string, names ...string) *delivery.Engine {
	t.Helper()
	e := engine(t, address)
	if _, err := e.Store.Create(); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if _, _, err := agents.Add(t.Context(), e.Ledger, agents.Update{Name: name, InboxView: new(true)}); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

// trace writes an event of a message.
func trace(s *postgrestest.Session, message, event string) {
	s.Run(fmt.Sprintf(`INSERT INTO message_trace (message_id, at, event)
		VALUES ('%s', '2026-01-01T00:00:00.000Z', '%s')`, message, event))
}

// follower follows the trace.
type follower struct {
	t     *testing.T
	l     *ledger.Ledger
	at    messages.Cursor
	ids   []int64
	words []string // MESSAGE EVENT
}

// look reads the events that are available.
func (f *follower) look() {
	f.t.Helper()
	for more := true; more; {
		list, next, m, err := messages.Events(f.t.Context(), f.l, f.at, "", 7)
		if err != nil {
			f.t.Fatal(err)
		}
		for _, e := range list {
			f.ids, f.words = append(f.ids, e.ID), append(f.words, e.MessageID+" "+e.Event)
		}
		f.at, more = next, m
	}
}

// TestFirstBegunLastCommitted follows the trace during a transaction that begins before another one and commits
// after it.
func TestFirstBegunLastCommitted(t *testing.T) {
	t.Parallel()
	address := postgrestest.Place(postgrestest.Start(t))
	e := made(t, address, "ann")
	start, err := messages.LastEvent(t.Context(), e.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	f := &follower{t: t, l: e.Ledger, at: start}
	slow, fast := postgrestest.Connect(t, address), postgrestest.Connect(t, address)
	slow.Begin()
	trace(slow, "m1", "created")
	fast.Begin()
	trace(fast, "m2", "created")
	fast.Run("COMMIT")
	f.look()
	want.Rows(t, f.words)
	by, err := messages.DelayedBy(t.Context(), e.Ledger, f.at)
	if err != nil || by != fmt.Sprintf("pid %d", slow.PID()) {
		t.Errorf("delayed by %q, %v; want process %d", by, err, slow.PID())
	}
	if last, err := messages.LastEvent(t.Context(), e.Ledger); err != nil || last != start {
		t.Errorf("what happens from now on begins behind %v, %v; want %v", last, err, start)
	}
	trace(slow, "m3", "created")
	slow.Run("COMMIT")
	f.look()
	want.Rows(t, f.words, "m1 created", "m2 created", "m3 created")
	if by, err := messages.DelayedBy(t.Context(), e.Ledger, f.at); by != "" || err != nil {
		t.Errorf("delayed by %q, %v", by, err)
	}

	// Open transactions of another program, or of another database of the server, delay nothing.
	slow.Run("BEGIN; CREATE TABLE other (n int); INSERT INTO other VALUES (1)")
	fast.Begin()
	trace(fast, "m4", "created")
	fast.Run("COMMIT")
	f.look()
	want.Rows(t, f.words[3:], "m4 created")
	slow.Run("ROLLBACK")

	// A transaction that is rolled back leaves a gap in the ids.
	slow.Begin()
	trace(slow, "m5", "created")
	slow.Run("ROLLBACK")
	fast.Begin()
	trace(fast, "m6", "created")
	fast.Run("COMMIT")
	f.look()
	want.Rows(t, f.words[4:], "m6 created")
	if _, err := messages.CursorOf(t.Context(), e.Ledger, f.at.String()); err != nil {
		t.Error(err)
	}
	if _, err := messages.CursorOf(t.Context(), e.Ledger,
		"1000"); orchestrator.CodeOf(err) != orchestrator.InvalidParams {
		t.Errorf("an event of another database: %v", err)
	}
}

// TestFollowedBesideWriters follows the trace during six parallel transactions. None of their events is skipped or
// shown twice, and the events of one message come in their order.
func TestFollowedBesideWriters(t *testing.T) {
	t.Parallel()
	address := postgrestest.Place(postgrestest.Start(t))
	e := made(t, address)
	f := &follower{t: t, l: e.Ledger}
	var writers sync.WaitGroup
	written := make(chan string, 10_000)
	for w := range 6 {
		s := postgrestest.Connect(t, address)
		writers.Go(func() {
			for n := range 60 {
				m := fmt.Sprintf("m%d.%d", w, n)
				s.Begin()
				trace(s, m, "created")
				if n%7 == w {
					s.Run("ROLLBACK")
					continue
				}
				if n%3 == 0 { // others overtake this one
					s.Run("SELECT pg_sleep(0.02)")
				}
				trace(s, m, "read")
				s.Run("COMMIT")
				written <- m
				select {
				case other := <-written: // written by any transaction that has committed
					s.Begin()
					trace(s, other, "acknowledged")
					s.Run("COMMIT")
				default:
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { writers.Wait(); close(done) }()
	for open := true; open; {
		select {
		case <-done:
			open = false
		default:
		}
		f.look()
	}

	followed(t, address, f)
}

// followed compares the events that were shown with those in the database.
func followed(t *testing.T, address string, f *follower) {
	t.Helper()
	rows, err := postgrestest.SQL(t.Context(), address, `SELECT id, message_id, event FROM message_trace ORDER BY id`)
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	for i, id := range f.ids {
		shown = append(shown, fmt.Sprintf("%d|%s", id, strings.Replace(f.words[i], " ", "|", 1)))
	}
	lost := slices.DeleteFunc(slices.Clone(rows), func(row string) bool { return slices.Contains(shown, row) })
	if len(lost) > 0 || !slices.Equal(shown, rows) {
		t.Errorf("%d events, %d shown, %d lost: %v", len(rows), len(shown), len(lost), lost[:min(len(lost), 10)])
	}
	order := map[string]int{"created": 1, "delivered": 2, "read": 3, "acknowledged": 4}
	last := map[string]int{}
	for _, word := range f.words {
		m, event, _ := strings.Cut(word, " ")
		if order[event] < last[m] {
			t.Errorf("%s came after what followed it", word)
		}
		last[m] = max(last[m], order[event])
	}
}

// TestFollowedBesideEngines follows and counts the trace while six processes send to each other and read.
func TestFollowedBesideEngines(t *testing.T) {
	t.Parallel()
	followBesideEngines(t, postgrestest.Start(t))
}

func followBesideEngines(t *testing.T, server string) {
	address := postgrestest.Place(server)
	names := []string{"a", "b", "c", "d", "e", "f"}
	e := made(t, address, names...)
	start, err := messages.LastEvent(t.Context(), e.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	f := &follower{t: t, l: e.Ledger, at: start}
	var writers sync.WaitGroup
	for i, name := range names {
		own, to := engine(t, address), names[(i+1)%len(names)]
		writers.Go(func() {
			for range 15 {
				if _, err := messages.Send(t.Context(), own.Ledger,
					orchestrator.Draft{Sender: name, Recipient: to, Type: "note", Payload: []byte(`1`)}); err != nil {
					t.Error(err)
				}
				if _, _, err := reading.Wait(t.Context(), own.Ledger,
					reading.Options{Recipient: name, Timeout: time.Millisecond, Limit: 10}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { writers.Wait(); close(done) }()
	for open := true; open; {
		select {
		case <-done:
			open = false
		default:
		}
		f.look()
		if err := traffic.Count(t.Context(), e.Ledger); err != nil {
			t.Error(err)
		}
	}

	followed(t, address, f)
	r, err := traffic.Of(t.Context(), e.Ledger, traffic.Query{Since: time.Hour, Every: time.Minute})
	if err != nil || r.Total.Sent != 90 {
		t.Errorf("%d were counted, %v; want 90", r.Total.Sent, err)
	}
}
