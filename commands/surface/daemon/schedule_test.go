package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/robfig/cron/v3"

	"mailroom/commands"
	"mailroom/commands/surface/surfacetest"
	"mailroom/orchestrator"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/schedules"
)

// ticking returns a vocabulary of one command that sends the mark of each run to a channel.
func ticking(t *testing.T, runs chan<- string) *commands.Catalogue {
	t.Helper()
	return doing(t, func(_ context.Context, _ commands.Env, mark string) error {
		runs <- mark
		return nil
	})
}

// doing returns a vocabulary of one command, tick, that calls do.
func doing(t *testing.T, do func(ctx context.Context, env commands.Env, mark string) error) *commands.Catalogue {
	t.Helper()
	type params struct {
		Mark string `json:"mark,omitempty" desc:"text of the alert"`
	}
	run := func(ctx context.Context, env commands.Env, p params) (struct{}, error) {
		return struct{}{}, do(ctx, env, p.Mark)
	}
	tick := commands.Define(surfacetest.Vocabulary("tick", "tick"), "tick", run)
	return commands.NewCatalogue([]*commands.Definition{tick.Definition})
}

// fakeTime is a clock that moves only when it is set.
type fakeTime struct {
	mu sync.Mutex
	at time.Time
}

func (f *fakeTime) now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.at
}

func (f *fakeTime) set(at time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.at = at
}

func openRouter(t *testing.T, path string, now func() time.Time) *delivery.Engine {
	t.Helper()
	return surfacetest.OpenRouter(t, ledger.Options{Path: path, Now: now})
}

// clearSchedules removes all schedules.
func clearSchedules(t *testing.T, r *delivery.Engine) {
	t.Helper()
	if _, err := r.Store.Create(); err != nil {
		t.Fatal(err)
	}
	list, err := schedules.List(t.Context(), r.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		if err := schedules.Remove(t.Context(), r.Ledger, s.Name); err != nil {
			t.Fatal(err)
		}
	}
}

// startScheduler runs a scheduler until the end of the test.
func startScheduler(t *testing.T, r *delivery.Engine, catalogue *commands.Catalogue) (stop func()) {
	t.Helper()
	env := commands.Env{Engine: r, Caller: commands.Caller{Admin: true}, Log: slog.New(slog.DiscardHandler),
		Catalogue: catalogue}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- newScheduler(env, newMetrics(r.Ledger, "test", slog.New(slog.DiscardHandler))).run(ctx)
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func addSchedule(t *testing.T, r *delivery.Engine, name, spec string) {
	t.Helper()
	if _, err := schedules.Add(t.Context(), r.Ledger,
		orchestrator.Schedule{Name: name, Spec: spec, Command: "tick",
			Params: []byte(`{"mark":"` + name + `"}`)}); err != nil {
		t.Fatal(err)
	}
}

// TestOddSchedules checks that a schedule with invalid values does not run and leaves nothing behind, and that the
// others run once each.
func TestOddSchedules(t *testing.T) {
	t.Parallel()
	path := enginetest.Place(t)
	r := openRouter(t, path, nil)
	clearSchedules(t, r)
	addSchedule(t, r, "good", "@every 10s")
	db := enginetest.Plain(t, path)
	const odd = `('spec', 'never', 'tick', '{}', ''), ('command', '@every 10s', 'nothing', '{}', ''), ('times', '0 3 * * *', 'tick', '{}', 'never'),
		('params', '@every 10s', 'tick', '{"mark":', ''), ('no_object', '@every 10s', 'tick', '[]', '')`
	if _, err := db.Exec(`INSERT INTO schedules (name, spec, command, params, created_at) VALUES ` + odd + `;
		UPDATE schedules SET last_run_at = '9999-12-31' WHERE name = 'times'`); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	s := newScheduler(commands.Env{Engine: r, Caller: commands.Caller{Admin: true}, Log: log,
		Catalogue: ticking(t, make(chan string, 100))}, newMetrics(r.Ledger, "test", log))
	if err := s.load(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if names := slices.Sorted(maps.Keys(s.running)); !slices.Equal(names, []string{"good", "times"}) ||
		len(s.cron.Entries()) != 2 {
		t.Errorf("taken up: %q, planned: %d", names, len(s.cron.Entries()))
	}
	if _, err := db.Exec(`DELETE FROM schedules; UPDATE settings SET value = 'changed'
		WHERE key = 'config.version'`); err != nil {
		t.Fatal(err)
	}
	if err := s.load(t.Context(), false); err != nil || len(s.cron.Entries()) != 0 {
		t.Errorf("planned after all were removed: %d (%v)", len(s.cron.Entries()), err)
	}
	s.jobs.Wait()
}

// TestMissedRunIsMadeUpOnce checks that a daily run that was due while no daemon ran is made up at the start, by one
// of two daemons, and that nothing else is made up.
func TestMissedRunIsMadeUpOnce(t *testing.T) {
	t.Parallel()
	clock := &fakeTime{at: time.Date(2026, 5, 1, 12, 0, 0, 0, time.Local)}
	path := enginetest.Place(t)
	r := openRouter(t, path, clock.now)
	clearSchedules(t, r)
	addSchedule(t, r, "daily", "0 3 * * *")
	addSchedule(t, r, "yearly", "0 3 1 1 *")
	addSchedule(t, r, "bell", orchestrator.Doorbell)
	clock.set(time.Date(2026, 5, 3, 12, 0, 0, 0, time.Local))
	runs := make(chan string, 100)
	catalogue := ticking(t, runs)
	stopFirst, stopSecond := startScheduler(t, r, catalogue),
		startScheduler(t, openRouter(t, path, clock.now), catalogue)
	seen := map[string]int{}
	for seen["bell"] < 2 || seen["daily"] < 1 {
		seen[<-runs]++
	}
	stopFirst()
	stopSecond()
	close(runs)
	for mark := range runs {
		seen[mark]++
	}
	if seen["daily"] != 1 || seen["yearly"] != 0 {
		t.Errorf("runs: %v; want the daily one once, the yearly one never", seen)
	}
	list, err := schedules.List(t.Context(), r.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		want := ""
		if s.Name == "daily" {
			want = time.Date(2026, 5, 3, 3, 0, 0, 0, time.Local).UTC().Format("2006-01-02T15:04:05.000Z")
		}
		if s.LastRunAt != want {
			t.Errorf("%s last ran at %q; want %q", s.Name, s.LastRunAt, want)
		}
	}
}

// TestSchedulesAreReadAgain checks that a schedule added while the daemon runs takes effect, and that one that cannot
// run is ignored without harm.
func TestSchedulesAreReadAgain(t *testing.T) {
	t.Parallel()
	r := openRouter(t, enginetest.Place(t), nil)
	clearSchedules(t, r)
	runs := make(chan string, 100)
	startScheduler(t, r, ticking(t, runs))
	for i, s := range []orchestrator.Schedule{
		{Spec: "never", Command: "tick", Params: []byte("{}")},
		{Spec: "TZ=UTC", Command: "tick", Params: []byte("{}")},
		{Spec: "0 0 30 2 *", Command: "tick", Params: []byte("{}")},
		{Spec: "@every 1ms", Command: "tick", Params: []byte("{}")},
		{Spec: "@every 1s", Command: "nothing", Params: []byte("{}")},
		{Spec: "@every 1s", Command: "tick", Params: []byte("{")},
		{Spec: orchestrator.Doorbell, Command: "tick", Params: []byte(`{"marks":1}`)},
	} {
		s.Name = fmt.Sprintf("broken-%d", i)
		if _, err := schedules.Add(t.Context(), r.Ledger, s); err != nil {
			t.Fatal(err)
		}
	}
	addSchedule(t, r, "often", "@every 1s")
	for range 2 {
		if mark := <-runs; mark != "often" {
			t.Errorf("%s ran", mark)
		}
		// A change of something else does not restart its period.
		if _, err := r.SetSetting(t.Context(), "hops.limit", "63"); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMissed(t *testing.T) {
	t.Parallel()
	plan, err := cron.ParseStandard("0 3 * * *")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 5, 3, 12, 0, 0, 0, time.Local)
	stamp := func(ago time.Duration) string { return orchestrator.Stamp(now.Add(-ago)) }
	for _, c := range []struct {
		last, created string
		want          bool
	}{
		{stamp(time.Hour), stamp(48 * time.Hour), false},
		{stamp(24 * time.Hour), stamp(48 * time.Hour), true},
		{"", stamp(48 * time.Hour), true},
		{"", stamp(time.Hour), false},
		{"yesterday", stamp(48 * time.Hour), true},
		{"yesterday", stamp(time.Hour), false},
		{"yesterday", "last week", false},
	} {
		j := &job{plan: plan, schedule: orchestrator.Schedule{LastRunAt: c.last, CreatedAt: c.created}}
		if got := j.missed(now); got != c.want {
			t.Errorf("last run at %q, created at %q: missed %v; want %v", c.last, c.created, got, c.want)
		}
	}
}

func TestLatestSlot(t *testing.T) {
	t.Parallel()
	r := openRouter(t, enginetest.Place(t), nil)
	env := commands.Env{Engine: r, Log: slog.New(slog.DiscardHandler), Catalogue: ticking(t, make(chan string, 1))}
	s := newScheduler(env, newMetrics(r.Ledger, "test", slog.New(slog.DiscardHandler)))
	at := func(text string) time.Time {
		when, err := time.ParseInLocation("2006-01-02 15:04:05", text, time.Local)
		if err != nil {
			t.Fatal(err)
		}
		return when
	}
	for _, c := range []struct{ spec, now, want string }{
		{"0 3 * * *", "2026-05-03 03:00:00", "2026-05-03 03:00:00"},
		{"0 3 * * *", "2026-05-03 02:59:59", "2026-05-02 03:00:00"},
		{"*/5 * * * *", "2026-05-03 03:07:30", "2026-05-03 03:05:00"},
		{"0 3 1 * *", "2026-05-03 12:00:00", "2026-05-01 03:00:00"},
		{"0 3 1 1 *", "2026-05-03 12:00:00", "2026-01-01 03:00:00"},
		{"0 3 29 2 *", "2027-05-03 12:00:00", "2024-02-29 03:00:00"},
	} {
		j := &job{s: s, schedule: orchestrator.Schedule{Name: "x", Spec: c.spec}}
		var err error
		if j.plan, err = cron.ParseStandard(c.spec); err != nil {
			t.Fatal(err)
		}
		if got := j.latestSlot(at(c.now)); !got.Equal(at(c.want)) {
			t.Errorf("%s at %s: slot %s; want %s", c.spec, c.now, got, c.want)
		}
	}
}
