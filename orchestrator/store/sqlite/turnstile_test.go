package sqlite

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"mailroom/orchestrator"
	"mailroom/orchestrator/orchestratortest/helper"
	"mailroom/orchestrator/store"
)

// helpHold enters, prints a line, and leaves at the next input line.
func helpHold(path string, in *bufio.Scanner) {
	leave := newTurnstile(path).enter(time.Minute)
	fmt.Println("inside")
	in.Scan()
	leave()
	fmt.Println("outside")
	in.Scan()
}

// helpCount increments the number in a file many times, in a way that loses increments if two processes do so at
// once.
func helpCount(path string, in *bufio.Scanner) {
	turn := newTurnstile(path)
	for range countsPerProcess {
		leave := turn.enter(time.Minute)
		text, _ := os.ReadFile(path)
		n, _ := strconv.Atoi(string(text))
		if err := os.WriteFile(path, []byte(strconv.Itoa(n+1)), 0o600); err != nil {
			fmt.Println(err)
		}
		leave()
	}
	fmt.Println("counted")
}

const countsPerProcess = 300

// isFree opens the file again to check whether anybody holds the turnstile of the database at path.
func isFree(t *testing.T, path string) bool {
	t.Helper()
	f, err := os.Open(path + "-turnstile")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	defer flock(int(f.Fd()), unix.LOCK_UN)
	return flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil
}

// state returns the state of a turnstile that a test may read while its helper runs.
func (t *turnstile) state() (within bool, waiting <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.held, t.waiting
}

func (t *turnstile) inside() bool {
	within, _ := t.state()
	return within
}

func TestTurnstileLetsOneProcessInAtATime(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	const processes = 4
	var helpers []*helper.Process
	for range processes {
		helpers = append(helpers, helper.Start(t, "turnstile count", path))
	}
	for _, h := range helpers {
		h.Expect("counted")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := strconv.Itoa(processes * countsPerProcess); string(text) != want {
		t.Errorf("counted %s, want %s", text, want)
	}
}

func TestTurnstileGoesOnWithoutAStoppedHolder(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	holder := helper.Start(t, "turnstile hold", path)
	holder.Expect("inside")
	holder.Stop()

	turn := newTurnstile(path)
	defer turn.close()
	leave := turn.enter(time.Millisecond)
	within, abandoned := turn.state()
	if within || isFree(t, path) {
		t.Fatal("entered although the stopped process is still inside")
	}
	leave()
	if abandoned == nil {
		t.Fatal("nobody waits for the stopped process any more")
	}
	// With a bound of an hour, this returns because it does not wait again.
	turn.enter(time.Hour)()
	if within, waiting := turn.state(); within || waiting != abandoned {
		t.Fatal("a second call waits on the same open file, or got in by it")
	}

	holder.Resume()
	holder.Say("leave")
	holder.Expect("outside")
	<-abandoned
	if !isFree(t, path) {
		t.Fatal("the abandoned helper kept the turnstile")
	}
	leave = turn.enter(time.Hour)
	if !turn.inside() || isFree(t, path) {
		t.Fatal("the turnstile does not work again after all are gone")
	}
	leave()
	if !isFree(t, path) {
		t.Fatal("leave did not leave")
	}
}

func TestTurnstileWaitsForTheOneInside(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	holder := helper.Start(t, "turnstile hold", path)
	holder.Expect("inside")
	turn := newTurnstile(path)
	defer turn.close()
	entered := make(chan func())
	go func() { entered <- turn.enter(time.Hour) }()
	holder.Say("leave")
	leave := <-entered
	if !turn.inside() {
		t.Fatal("waited, and did not get in")
	}
	leave()
}

func TestTurnstileOfAKilledProcessIsFree(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	holder := helper.Start(t, "turnstile hold", path)
	holder.Expect("inside")
	holder.Kill()
	turn := newTurnstile(path)
	defer turn.close()
	leave := turn.enter(time.Hour)
	if !turn.inside() {
		t.Fatal("a killed process keeps the turnstile")
	}
	leave()
}

func TestTurnstileClosedWhileWaiting(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	holder, turn := newTurnstile(path), newTurnstile(path)
	leave := holder.enter(0)
	turn.enter(time.Millisecond)()
	_, abandoned := turn.state()
	turn.close()
	leave()
	<-abandoned
	if turn.open || turn.inside() {
		t.Error("the helper left the file open")
	}
	if !isFree(t, path) {
		t.Error("the helper kept the turnstile")
	}
	turn.enter(time.Hour)() // does nothing, at once
	if turn.open {
		t.Error("a closed turnstile was opened again")
	}
	holder.close()
}

func TestTurnstileEnteredTwiceIsLeftOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	turn := newTurnstile(path)
	defer turn.close()
	turn.enter(0) // simulates a panic that lost the leave
	leave := turn.enter(time.Hour)
	leave()
	if !isFree(t, path) {
		t.Error("the turnstile is held for ever")
	}
	leave() // a second call does no harm
}

func TestTurnstileWhereThereCanBeNone(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "later")
	turn := newTurnstile(filepath.Join(folder, "a.db"))
	defer turn.close()
	turn.enter(time.Hour)()
	if turn.open {
		t.Fatal("opened a file in a folder that is not there")
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	leave := turn.enter(time.Hour)
	if !turn.inside() {
		t.Error("did not try again")
	}
	leave()
	info, err := os.Stat(filepath.Join(folder, "a.db-turnstile"))
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		t.Errorf("others may open the turnstile: %v", info.Mode())
	}
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) != 1 {
		t.Errorf("the turnstile touched more than its own file: %v %v", entries, err)
	}
	if strings.HasSuffix(turn.path, ".db") {
		t.Error("the turnstile locks the database itself")
	}
}

func BenchmarkTurnstile(b *testing.B) {
	turn := newTurnstile(filepath.Join(b.TempDir(), "a.db"))
	defer turn.close()
	for b.Loop() {
		turn.enter(time.Second)()
	}
}

// hurried is a backend whose batches have waited for their turn until only a second is left.
type hurried struct{ *backend }

func (h hurried) Write(b *store.Batch, _ time.Time) (store.Commit, error) {
	return h.backend.Write(b, time.Now().Add(time.Second))
}

// lockedStore creates a database of which another program holds the write lock. SQLite's own waiting is turned off,
// because it does not use the clock of a bubble.
func lockedStore(t *testing.T) *Store {
	t.Helper()
	s := makeStore(t)
	if err := s.backend.c.Script("PRAGMA busy_timeout = 0"); err != nil {
		t.Fatal(err)
	}
	other, err := openConn(writerDSN(s.path))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.close() })
	if err := other.Script("BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestWaitedForTheTurn checks that the time that a batch has waited for its turn is not added to its wait for
// SQLite's lock.
func TestWaitedForTheTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := lockedStore(t)
		s.writer.Backend = hurried{s.backend}
		began := time.Now()
		err := s.write(t.Context(), writeOne)
		if took := time.Since(began); orchestrator.CodeOf(err) != orchestrator.Busy || took > time.Second ||
			took < time.Second/2 {
			t.Errorf("%v, after %s; want busy after a second", err, took)
		}
	})
}

// TestLookForTheLockIsShort checks that a check of the write lock waits less than a request for it.
func TestLookForTheLockIsShort(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, level := lockedStore(t), ""
		began := time.Now()
		locked := s.CheckLock(t.Context(), func(_, is, _, _ string) { level = is })
		if took := time.Since(began); !locked || level != "problem" || took > store.LockPatience {
			t.Errorf("locked: %t, %s, after %s", locked, level, took)
		}
	})
}
