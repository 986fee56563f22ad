package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/store/storetest"
)

// wantTexts checks the first column of a query's result.
func wantTexts(t *testing.T, s *Store, query string, want ...string) {
	t.Helper()
	err := s.Read(t.Context(), func(c *store.Conn) error {
		got, err := c.Texts(query)
		if err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("got %q; want %q", got, want)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestFailingDiskIsRemembered checks that nothing is acknowledged after a failed sync, since a later sync may
// succeed although the disk has lost the data of the first.
func TestFailingDiskIsRemembered(t *testing.T) {
	t.Parallel()
	s := makeStore(t)
	wal := s.backend.wal
	whole := wal.file
	broken, err := os.Open(s.path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	if err := broken.Close(); err != nil {
		t.Fatal(err)
	}
	for _, file := range []*os.File{broken, whole} { // a sync of a closed file fails
		wal.file = file
		if err := s.write(t.Context(), writeOne); orchestrator.CodeOf(err) != orchestrator.Unavailable {
			t.Fatalf("a write that the disk did not take, or came after one: %v", err)
		}
	}
	wantTexts(t, s, `SELECT message_id FROM agent_inbox LIMIT 1`, "0") // reading still works
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again := openStore(t, s.path, s.log)
	if err := again.write(t.Context(), writeOne); orchestrator.CodeOf(err) != orchestrator.Unavailable {
		t.Errorf("a write after the database was closed and opened again: %v", err)
	}
}

// TestOneSyncForSeveralCommits checks that a sync covers all commits before it, which need no sync of their own.
func TestOneSyncForSeveralCommits(t *testing.T) {
	t.Parallel()
	w := makeStore(t).backend
	first, second := w.wal.committed(w), w.wal.committed(w)
	if err := second.Sync(); err != nil {
		t.Fatal(err)
	}
	if err := w.wal.file.Close(); err != nil { // from now on a sync fails
		t.Fatal(err)
	}
	if err := first.Sync(); err != nil {
		t.Errorf("the first commit was synced with the second: %v", err)
	}
	if err := w.wal.committed(w).Sync(); err == nil {
		t.Error("a later commit needs a sync of its own")
	}
}

// TestNextBatchDuringASync checks that the next batch is written while a batch waits for the disk and many requests
// wait. Neither batch is answered before its sync.
func TestNextBatchDuringASync(t *testing.T) {
	t.Parallel()
	s := makeStore(t)
	w := s.backend
	before := w.wal.last.Load()
	w.wal.mu.Lock() // simulates a slow disk

	inside, leave := make(chan struct{}), make(chan struct{})
	first := make(chan error, 1)
	go func() {
		first <- s.write(context.Background(), func(t *store.Transaction) error {
			close(inside)
			<-leave
			return writeOne(t)
		})
	}()
	<-inside
	answers := []<-chan error{first}
	for range 64 { // more than gather behind one sync
		answers = append(answers,
			storetest.Queue(t.Context(), t, func(ctx context.Context) error { return s.write(ctx, writeOne) }))
	}
	close(leave)
	for end := time.Now().Add(time.Minute); w.wal.last.Load() < before+2 && time.Now().Before(end); {
		runtime.Gosched()
	}
	if w.wal.last.Load() < before+2 {
		t.Error("the second batch waits for the first one's sync")
	}
	for _, answer := range answers {
		if len(answer) > 0 {
			t.Error("a request was answered before the disk had it")
		}
	}
	w.wal.mu.Unlock()
	for _, answer := range answers {
		if err := <-answer; err != nil {
			t.Error(err)
		}
	}
	wantTexts(t, s, `SELECT count(*) FROM agent_inbox`, "65")
}

// quietJob is a job whose caller gets no data if nothing changed.
type quietJob struct{ store.Job }

func (quietJob) Quiet() bool { return true }

// lazyJob is a job that a power cut may undo.
type lazyJob struct{ store.Job }

func (lazyJob) Lazy() bool { return true }

// TestAnswersAreSynced checks that an answer waits for the disk even if its request changed nothing because somebody
// else had just done so. A request without an answer waits if it has written, unless it is lazy. A request that
// reads what a lazy request wrote, and answers, first syncs it to the disk.
func TestAnswersAreSynced(t *testing.T) {
	t.Parallel()
	s := makeStore(t)
	looks := func(t *store.Transaction) error {
		_, err := t.Texts(`SELECT message_id FROM agent_inbox`)
		return err
	}
	for _, c := range []struct {
		what  string
		work  store.Work
		syncs bool
	}{
		{"a write", store.Job(writeOne), true},
		{"an answer", store.Job(looks), true},
		{"no answer", quietJob{looks}, false},
		{"a write without an answer", quietJob{writeOne}, true},
		{"a lazy write", lazyJob{writeOne}, false},
		{"an answer behind it", store.Job(looks), true},
	} {
		before := s.backend.wal.synced
		if err := s.Write(&store.Request{Ctx: t.Context(), Work: c.work}); err != nil {
			t.Fatal(err)
		}
		if synced := s.backend.wal.synced != before; synced != c.syncs {
			t.Errorf("%s: synced %t", c.what, synced)
		}
	}
}

// TestLogTurnedOff checks that the next write turns on the write-ahead log if somebody has turned it off.
func TestLogTurnedOff(t *testing.T) {
	t.Parallel()
	s := makeStore(t)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	c, err := openConn(writerDSN(s.path))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.Script("PRAGMA journal_mode = DELETE"), c.close()); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, s.path, s.log)
	if err := s.write(t.Context(), writeOne); err != nil {
		t.Fatal(err)
	}
	wantTexts(t, s, "PRAGMA journal_mode", "wal")
}
