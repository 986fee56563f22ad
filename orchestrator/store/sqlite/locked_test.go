package sqlite_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/store"
	"mailroom/tracing"
)

// shortBusy is a busy timeout by the clock of a bubble. SQLite also waits at each try, by the real clock.
const shortBusy = 100 * time.Millisecond

// lockable opens a database with the agents a and b. When lock is called, another program takes the write lock.
func lockable(t *testing.T, bell orchestrator.Bell) (r *delivery.Engine, lock func()) {
	t.Helper()
	r = enginetest.OpenWith(t,
		ledger.Options{Path: filepath.Join(t.TempDir(), "a.db"), Bell: bell, BusyTimeout: shortBusy})
	for _, name := range []string{"a", "b"} {
		if _, _, err := agents.Add(t.Context(), r.Ledger, agents.Update{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	return r, func() {
		c, err := enginetest.Plain(t, r.Path()).Conn(context.Background())
		if err == nil {
			_, err = c.ExecContext(t.Context(), `BEGIN IMMEDIATE`)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
	}
}

// TestBusyAfterOneTimeout checks that a command that finds the database locked returns busy after the busy timeout.
// Writing the record of a failed command does not wait for the database a second time.
func TestBusyAfterOneTimeout(t *testing.T) {
	t.Parallel()
	for name, command := range map[string]func(ctx context.Context, r *delivery.Engine, bell orchestrator.Bell,
		lock func()) error{
		"send": func(ctx context.Context, r *delivery.Engine, _ orchestrator.Bell, lock func()) error {
			lock()
			_, err := messages.Send(ctx, r.Ledger, orchestrator.Draft{Sender: "a", Recipient: "b"})
			return err
		},
		"wait that names whom it waits for": func(ctx context.Context, r *delivery.Engine, bell orchestrator.Bell,
			lock func()) error {
			ended := make(chan error)
			go func() {
				_, _, err := reading.Wait(ctx, r.Ledger,
					reading.Options{Recipient: "a", Timeout: time.Hour, Limit: 1, For: []string{"b"}})
				ended <- err
			}()
			synctest.Wait()
			if _, err := messages.Send(ctx, r.Ledger, orchestrator.Draft{Sender: "b", Recipient: "b"}); err != nil {
				return err
			}
			lock()
			bell.Ring("a")
			return <-ended
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				bell := store.NewLocalBell()
				r, lock := lockable(t, bell)
				var began time.Time
				ctx, span := tracing.Start(context.Background(), name)
				err := command(ctx, r, bell, func() {
					lock()
					began = time.Now()
				})
				r.EndSpan(ctx, span, err, func() bool { return false })
				if took := time.Since(began); orchestrator.CodeOf(err) != orchestrator.Busy || took > shortBusy*3/2 ||
					took < shortBusy/2 {
					t.Errorf("%v, after %s by the clock of the test; want busy after %s", err, took, shortBusy)
				}
			})
		})
	}
}

// TestDoctorNamesTheLocker checks that the doctor reports that another program holds the write lock, and which, and
// that it sends no test message, which could not arrive.
func TestDoctorNamesTheLocker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, lock := lockable(t, store.NewLocalBell())
		before := overview.Doctor(t.Context(), r.Ledger, overview.DoctorOptions{Try: true})
		lock()
		began := time.Now()
		locked := overview.Doctor(t.Context(), r.Ledger, overview.DoctorOptions{Try: true})
		if took := time.Since(began); took > shortBusy*3/2 {
			t.Errorf("it took %s by the clock of the test", took)
		}
		about := func(findings []overview.Finding, check string) (found overview.Finding) {
			for _, f := range findings {
				if f.Title() == check {
					found = f
				}
			}
			return found
		}
		if ok := about(before, "lock"); ok.Level != "ok" {
			t.Errorf("unlocked: %+v", ok)
		}
		self := ""
		if runtime.GOOS == "linux" {
			name, err := os.ReadFile("/proc/self/comm")
			if err != nil {
				t.Fatal(err)
			}
			self = fmt.Sprintf("process %d (%q", os.Getpid(), strings.TrimSpace(string(name)))
		}
		if holder := about(locked, "lock"); holder.Level != "problem" || !strings.Contains(holder.Says, self) {
			t.Errorf("locked: %+v; want %s", holder, self)
		}
		if about(locked, "trials").Level != "problem" || about(locked, "trial a").Code != "" {
			t.Errorf("trials while it is locked: %+v, %+v", about(locked, "trials"), about(locked, "trial of a"))
		}
	})
}
