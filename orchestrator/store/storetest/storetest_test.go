package storetest

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mailroom/orchestrator/orchestratortest/helper"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/store/sqlite"
)

// A shorter patience finds a store that blocks its test sooner.
func init() { patience = 2 * time.Second }

// TestPlantedFaultsAreFound plants each fault in a correct store: the test of the broken promise must fail. Every
// promise has a fault.
func TestPlantedFaultsAreFound(t *testing.T) {
	t.Parallel()
	for _, p := range promises {
		if !slices.ContainsFunc(faults, func(f fault) bool { return f.breaks == p.says }) {
			t.Errorf("nothing shows that a test fails when it does not hold that %s", p.says)
		}
	}
	for _, f := range faults {
		t.Run(f.says, func(t *testing.T) {
			t.Parallel()
			i := slices.IndexFunc(promises, func(p promise) bool { return p.says == f.breaks })
			if i < 0 {
				t.Fatalf("there is no promise that %s", f.breaks)
			}
			address := f.says + "|" + filepath.Join(t.TempDir(), "a.db")
			found := record(t,
				func(r *recorder) { promises[i].check(&scene{TB: r, address: address, open: openFaulty}) })
			if !strings.Contains(strings.Join(found, "\n"), f.shows) {
				t.Errorf("%s: found %q; want %q in it", f.breaks, found, f.shows)
			}
		})
	}
}

// TestHelperProcess runs the other process of a test.
func TestHelperProcess(t *testing.T) { helper.Run(Helpers(openFaulty)) }

// openFaulty opens a store with the fault at the beginning of its address.
func openFaulty(o Options) (store.Store, error) {
	says, path, _ := strings.Cut(o.Address, "|")
	f := faults[slices.IndexFunc(faults, func(f fault) bool { return f.says == says })]
	options := sqlite.Options{
		Path: path, Now: time.Now, Log: slog.New(slog.DiscardHandler), BusyTimeout: o.BusyTimeout,
		Made: func(string) {}, Begin: o.Begin, End: o.End,
	}
	if f.options != nil {
		f.options(&options)
	}
	st, err := sqlite.Open(options)
	if err != nil || f.plant == nil {
		return st, err
	}
	return f.plant(st), nil
}

// recorder is a test whose failures are recorded and do not fail anything.
type recorder struct {
	testing.TB
	mu    sync.Mutex
	found []string
}

// record runs a test to its end, or to its first fatal failure, and returns its failures.
func record(t *testing.T, test func(r *recorder)) []string {
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		test(r)
	}()
	<-done
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.found
}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.found = append(r.found, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Error(args ...any) { r.Errorf("%s", fmt.Sprint(args...)) }
func (r *recorder) Fatal(args ...any) { r.Fatalf("%s", fmt.Sprint(args...)) }

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.found) > 0
}
