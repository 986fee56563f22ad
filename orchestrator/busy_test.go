package orchestrator

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mailroom/tracing"
)

// lockedRouter opens a router with the agents a and b whose database another program holds the write lock of, from when the
// function is called that it returns. SQLite's own waiting, which no bubble's clock knows of, is turned off.
func lockedRouter(t *testing.T) (r *Router, lock func()) {
	t.Helper()
	r, err := Open(context.Background(), Options{Path: filepath.Join(t.TempDir(), "a.db"), Bell: NewLocalBell(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		if _, _, err := r.AddAgent(t.Context(), AgentUpdate{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	if err := fileOf(r).backend.c.script("PRAGMA busy_timeout = 0"); err != nil {
		t.Fatal(err)
	}
	return r, func() {
		db, err := sql.Open("sqlite3", "file:"+r.path+"?_txlock=immediate")
		if err != nil {
			t.Fatal(err)
		}
		held, err := db.Begin()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			held.Rollback()
			db.Close()
			r.Close()
		})
	}
}

// TestBusyAfterOneTimeout: a command that finds the database locked answers busy after the busy timeout; what is written
// about a failed command does not wait for the database a second time.
func TestBusyAfterOneTimeout(t *testing.T) {
	t.Parallel()
	for name, command := range map[string]func(ctx context.Context, r *Router, lock func()) error{
		"send": func(ctx context.Context, r *Router, lock func()) error {
			lock()
			_, err := r.Send(ctx, Draft{Sender: "a", Recipient: "b"})
			return err
		},
		"wait that names whom it waits for": func(ctx context.Context, r *Router, lock func()) error {
			ended := make(chan error)
			go func() {
				_, _, err := r.Wait(ctx, WaitOptions{Recipient: "a", Timeout: time.Hour, Limit: 1, For: []string{"b"}})
				ended <- err
			}()
			synctest.Wait()
			if _, err := r.Send(ctx, Draft{Sender: "b", Recipient: "b"}); err != nil {
				return err
			}
			lock()
			r.bell.Ring("a")
			return <-ended
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, lock := lockedRouter(t)
				var began time.Time
				ctx, span := tracing.Start(context.Background(), name)
				err := command(ctx, r, func() {
					lock()
					began = time.Now()
				})
				r.EndSpan(ctx, span, err, func() bool { return false })
				if took := time.Since(began); CodeOf(err) != Busy || took > r.busy+100*time.Millisecond || took < r.busy/2 {
					t.Errorf("%v, after %s by the clock of the test; want busy after %s", err, took, r.busy)
				}
			})
		})
	}
}

// TestWaitedForTheTurn: what a batch has waited for its turn, it does not wait again for SQLite's lock.
func TestWaitedForTheTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, lock := lockedRouter(t)
		lock()
		b := &Batch{w: fileOf(r).writer, requests: []*Request{{Ctx: context.Background()}}, outcomes: make([]error, 1)}
		until := time.Now().Add(time.Second) // as much as the turnstile has left of it
		if err := fileOf(r).backend.takeTurn(b, until); !isBusy(err) || time.Now().After(until) {
			t.Errorf("%v, %s after the time was up", err, time.Since(until))
		}
	})
}

// TestPatientUntil: a batch waits for the database as long as the most patient of its requests, and no longer than the busy
// timeout.
func TestPatientUntil(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		within := func(d time.Duration) *Request {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			t.Cleanup(cancel)
			return &Request{Ctx: ctx}
		}
		for name, c := range map[string]struct {
			requests []*Request
			want     time.Duration
		}{
			"no end":   {[]*Request{within(time.Second), {Ctx: t.Context()}}, 10 * time.Second},
			"the last": {[]*Request{within(time.Second), within(3 * time.Second), within(0)}, 3 * time.Second},
			"too long": {[]*Request{within(time.Hour)}, 10 * time.Second},
			"over":     {[]*Request{within(0)}, 0},
		} {
			b := Batch{requests: c.requests}
			if got := time.Until(b.patientUntil(10 * time.Second)); got != c.want {
				t.Errorf("%s: %s, want %s", name, got, c.want)
			}
		}
	})
}

// TestDoctorNamesTheLocker: the doctor says that another program holds the write lock, and which, and sends no test message,
// of which it would say that it did not arrive.
func TestDoctorNamesTheLocker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, lock := lockedRouter(t)
		before := r.Doctor(t.Context(), true)
		lock()
		began := time.Now()
		locked := r.Doctor(t.Context(), true)
		if took := time.Since(began); took > r.busy/2 {
			t.Errorf("it took %s by the clock of the test", took)
		}
		about := func(findings []Finding, check string) (found Finding) {
			for _, f := range findings {
				if f.Check == check {
					found = f
				}
			}
			return found
		}
		if ok := about(before, "lock"); ok.Level != "ok" {
			t.Errorf("unlocked: %+v", ok)
		}
		holder := about(locked, "lock")
		if holder.Level != "problem" || runtime.GOOS == "linux" && !strings.Contains(holder.Says, fmt.Sprintf("process %d (\"orchestrator.te", os.Getpid())) {
			t.Errorf("locked: %+v", holder)
		}
		if about(locked, "trials").Level != "problem" || about(locked, "trial of a").Check != "" {
			t.Errorf("trials while it is locked: %+v, %+v", about(locked, "trials"), about(locked, "trial of a"))
		}
	})
}
