package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"
)

// openWithTwo opens a router without transports, with the agents a and b.
func openWithTwo(t *testing.T) *Router {
	t.Helper()
	r, err := Open(t.Context(), Options{Path: filepath.Join(t.TempDir(), "a.db"), Bell: NewLocalBell()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	for _, name := range []string{"a", "b"} {
		if _, _, err := r.AddAgent(t.Context(), AgentUpdate{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// fileOf returns the database file that a router has open.
func fileOf(r *Router) *sqliteStore { return r.store.(*sqliteStore) }

// yieldUntil lets others run until something has come about.
func yieldUntil(t *testing.T, what string, reached func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for !reached() {
		if ctx.Err() != nil {
			t.Fatalf("it does not come about that %s", what)
		}
		runtime.Gosched()
	}
}

// awaitQueue returns when so many requests wait.
func awaitQueue(t *testing.T, w *Writer, n int) {
	t.Helper()
	yieldUntil(t, fmt.Sprintf("%d requests wait", n), func() bool { return w.waiting() >= n })
}

// together runs requests in one batch, in this order, and returns their outcomes.
func together(t *testing.T, r *Router, requests ...*request) []error {
	t.Helper()
	inside, leave := make(chan struct{}), make(chan struct{})
	first := make(chan error, 1)
	go func() {
		first <- r.write(context.Background(), func(*tx) error {
			close(inside)
			<-leave
			return errUndo
		})
	}()
	<-inside
	outcomes := make([]chan error, len(requests))
	for i, q := range requests {
		outcomes[i] = make(chan error, 1)
		if q.Ctx == nil {
			q.Ctx = context.Background()
		}
		go func() { outcomes[i] <- r.submit(q.Ctx, q) }()
		awaitQueue(t, fileOf(r).writer, i+1)
	}
	close(leave)
	<-first
	var errs []error
	for _, outcome := range outcomes {
		errs = append(errs, <-outcome)
	}
	return errs
}

// sendRequest sends n messages and then returns failure.
func sendRequest(r *Router, n int, failure error) *request {
	return &request{r: r, sends: true, fn: func(t *tx) error {
		for range n {
			d, err := Draft{Sender: "a", Recipient: "b"}.check()
			if err != nil {
				return err
			}
			if _, refusal, err := t.send(&d); err != nil || refusal != nil {
				return errors.Join(err, refusal)
			}
		}
		return failure
	}}
}

// checkTraces checks that every message has one created event, in the order of sending, and that there is no other.
func checkTraces(t *testing.T, r *Router, messages int) {
	t.Helper()
	err := r.read(t.Context(), func(c *Conn) error {
		sent, err := c.texts(`SELECT message_id FROM agent_message ORDER BY seq`)
		if err != nil {
			return err
		}
		traced, err := c.texts(`SELECT message_id FROM message_trace WHERE event = 'created' ORDER BY id`)
		if err != nil {
			return err
		}
		if len(sent) != messages || !slices.Equal(sent, traced) {
			return fmt.Errorf("%d messages; want %d. Sent\n%q\ntraced\n%q", len(sent), messages, sent, traced)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

var errOwn = errors.New("its own fault")

// TestFailureInABatchIsItsOwn: a request that fails behind what it wrote is undone, and its neighbours are not, whichever
// place it has. The events of new rows are those of the rows that stay.
func TestFailureInABatchIsItsOwn(t *testing.T) {
	t.Parallel()
	for place := range 4 {
		for wrote := range 3 {
			t.Run(fmt.Sprintf("place %d, %d rows", place, wrote), func(t *testing.T) {
				t.Parallel()
				r := openWithTwo(t)
				requests := []*request{sendRequest(r, 1, nil), sendRequest(r, 2, nil), sendRequest(r, 1, nil)}
				requests = slices.Insert(requests, place, sendRequest(r, wrote, errOwn))
				for i, err := range together(t, r, requests...) {
					if i == place && !errors.Is(err, errOwn) || i != place && err != nil {
						t.Errorf("request %d: %v", i, err)
					}
				}
				checkTraces(t, r, 4)
			})
		}
	}
}

// TestFailureAfterTracing: what a request that fails has traced of its neighbours' rows is traced all the same.
func TestFailureAfterTracing(t *testing.T) {
	t.Parallel()
	r := openWithTwo(t)
	traces := &request{r: r, sends: true, fn: func(t *tx) error {
		if err := t.traceCreated(); err != nil {
			return err
		}
		return errOwn
	}}
	other := sendRequest(r, 1, nil)
	other.Ctx = WithInstance(context.Background(), "another")
	errs := together(t, r, sendRequest(r, 1, nil), traces, sendRequest(r, 1, errOwn), other)
	if errs[0] != nil || !errors.Is(errs[1], errOwn) || !errors.Is(errs[2], errOwn) || errs[3] != nil {
		t.Errorf("outcomes %v", errs)
	}
	checkTraces(t, r, 2)
	err := r.read(t.Context(), func(c *Conn) error {
		actors, err := c.texts(`SELECT actor FROM message_trace WHERE event = 'created' ORDER BY id`)
		if err == nil && !slices.Equal(actors, []string{r.instance, "another"}) {
			err = fmt.Errorf("actors %q", actors)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestFailingDiskIsRemembered: after a sync that failed nothing is acknowledged any more, since a later sync may succeed
// although the disk has lost what the first one was for.
func TestFailingDiskIsRemembered(t *testing.T) {
	t.Parallel()
	r := openWithTwo(t)
	wal := fileOf(r).backend.wal
	whole := wal.file
	broken, err := os.Open(r.path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	if err := broken.Close(); err != nil {
		t.Fatal(err)
	}
	draft := Draft{Sender: "a", Recipient: "b"}
	for _, file := range []*os.File{broken, whole} { // a sync of a closed file fails
		wal.file = file
		if _, err := r.Send(t.Context(), draft); CodeOf(err) != Unavailable {
			t.Fatalf("a send that the disk did not take, or came after one: %v", err)
		}
	}
	if _, err := r.Poll(t.Context(), "b", 10); err != nil {
		t.Errorf("reading: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Open(t.Context(), Options{Path: r.path, Bell: NewLocalBell()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { again.Close() })
	if _, err := again.Send(t.Context(), draft); CodeOf(err) != Unavailable {
		t.Errorf("a send after the database was closed and opened again: %v", err)
	}
}

// TestOneSyncForSeveralCommits: a sync is for all commits before it, and those need none of their own.
func TestOneSyncForSeveralCommits(t *testing.T) {
	t.Parallel()
	r := openWithTwo(t)
	wal := fileOf(r).backend.wal
	w := fileOf(r).backend
	first, second := wal.committed(w), wal.committed(w)
	if err := second.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := wal.file.Close(); err != nil { // from now on a sync fails
		t.Fatal(err)
	}
	if err := first.Sync(); err != nil {
		t.Errorf("the first commit was synced with the second: %v", err)
	}
	if err := wal.committed(w).Sync(); err == nil {
		t.Error("a later commit needs a sync of its own")
	}
}

// TestNextBatchDuringASync: while a batch waits for the disk and many requests wait, the next one is written. Neither is
// answered before its sync.
func TestNextBatchDuringASync(t *testing.T) {
	t.Parallel()
	r := openWithTwo(t)
	w := fileOf(r).backend
	before := w.wal.last.Load()
	w.wal.mu.Lock() // the disk takes its time

	inside, leave := make(chan struct{}), make(chan struct{})
	answers := make(chan error, overlapFrom+1)
	first := sendRequest(r, 1, nil)
	send := first.fn
	first.fn = func(t *tx) error {
		close(inside)
		<-leave
		return send(t)
	}
	submit := func(q *request) {
		q.Ctx = context.Background()
		answers <- r.submit(q.Ctx, q)
	}
	go submit(first)
	<-inside
	for range overlapFrom {
		go submit(sendRequest(r, 1, nil))
	}
	awaitQueue(t, fileOf(r).writer, overlapFrom)
	close(leave)
	yieldUntil(t, "the second batch does not wait for the first one's sync", func() bool { return w.wal.last.Load() >= before+2 })
	if len(answers) > 0 {
		t.Errorf("%d requests were answered before the disk had them", len(answers))
	}
	w.wal.mu.Unlock()
	for range overlapFrom + 1 {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
	checkTraces(t, r, overlapFrom+1)
}

// TestAnswersAreSynced: an answer that changed nothing, since somebody else has just done it, waits for the disk too.
func TestAnswersAreSynced(t *testing.T) {
	t.Parallel()
	r := openWithTwo(t)
	draft := Draft{Sender: "a", Recipient: "b", IdempotencyKey: "once"}
	if _, err := r.Send(t.Context(), draft); err != nil {
		t.Fatal(err)
	}
	before := fileOf(r).backend.wal.synced
	if sent, err := r.Send(t.Context(), draft); err != nil || !sent.Idempotent {
		t.Fatalf("the repeat: %+v, %v", sent, err)
	}
	if fileOf(r).backend.wal.synced == before {
		t.Error("the repeat was answered without a sync")
	}
	before = fileOf(r).backend.wal.synced
	if _, err := r.DeliverAll(t.Context(), DeliverOptions{Recipient: "a"}); err != nil {
		t.Fatal(err)
	}
	if fileOf(r).backend.wal.synced != before {
		t.Error("a delivery run that found nothing waited for the disk")
	}
}

// TestLogTurnedOff: a database whose write-ahead log somebody has turned off gets it back with the next write.
func TestLogTurnedOff(t *testing.T) {
	t.Parallel()
	r := openWithTwo(t)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	c, err := openConn(writerDSN(r.path))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.script("PRAGMA journal_mode = DELETE"), c.close()); err != nil {
		t.Fatal(err)
	}
	r, err = Open(t.Context(), Options{Path: r.path, Bell: NewLocalBell()})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := r.Send(t.Context(), Draft{Sender: "a", Recipient: "b"}); err != nil {
		t.Fatal(err)
	}
	var mode string
	err = r.read(t.Context(), func(c *Conn) (err error) {
		mode, _, err = c.text("PRAGMA journal_mode")
		return err
	})
	if err != nil || mode != "wal" {
		t.Errorf("the journal mode is %q, %v", mode, err)
	}
}
