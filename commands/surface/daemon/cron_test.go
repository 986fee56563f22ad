package daemon

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/robfig/cron/v3"

	"mailroom/commands"
	"mailroom/commands/surface/surfacetest"
	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/schedules"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/transport"
)

// bubble runs a test in a synctest bubble, with the clock of the bubble as the clock of the database.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	enginetest.OfAFile(t, "a server's clock is not that of a bubble")
	synctest.Test(t, test)
}

// TestSchedulesKeepTime checks that a schedule tied to the clock runs by local time, and one with a period in each
// period.
func TestSchedulesKeepTime(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		r := openRouter(t, enginetest.Place(t), nil)
		clearSchedules(t, r)
		begin := time.Now()
		nightly := begin.Local().Add(40 * time.Minute).Truncate(time.Minute)
		addSchedule(t, r, "nightly", nightly.Format("4 15 * * *"))
		addSchedule(t, r, "often", "@every 10s")
		runs := make(chan string, 1000)
		defer startScheduler(t, r, ticking(t, runs))()
		often := 0
		for mark := <-runs; mark != "nightly"; mark = <-runs {
			often++
		}
		if now := time.Now(); !now.Equal(nightly) {
			t.Errorf("the nightly schedule ran at %s; want %s", now, nightly)
		}
		if want := int(nightly.Sub(begin) / (10 * time.Second)); often < want-1 || often > want {
			t.Errorf("%d runs every 10 s in %s", often, nightly.Sub(begin))
		}
	})
}

// TestPeriodsLongerThanDaemonsLive checks that a schedule with a period runs in each period, even if no daemon lives
// that long, and that only one of several daemons runs it.
func TestPeriodsLongerThanDaemonsLive(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		path := enginetest.Place(t)
		r, other := openRouter(t, path, nil), openRouter(t, path, nil)
		clearSchedules(t, r)
		begin := time.Now()
		addSchedule(t, r, "hourly", "@every 1h")
		runs := make(chan string, 1000)
		var came []time.Duration
		for range 18 {
			stop, stopOther := startScheduler(t, r, ticking(t, runs)), startScheduler(t, other, ticking(t, runs))
			for range 17 { // minutes
				<-time.After(time.Minute)
				for range len(runs) {
					<-runs
					came = append(came, time.Since(begin).Truncate(time.Minute))
				}
			}
			stop()
			stopOther()
			<-time.After(3 * time.Minute) // no daemon runs
		}
		// Its hours end at the minutes 60, 120, ...; a run that is due while no daemon runs is made up within a
		// minute of the next start.
		var want []time.Duration
		for hour := time.Hour; hour < time.Since(begin); hour += time.Hour {
			want = append(want, hour)
		}
		if len(came) != len(want) {
			t.Fatalf("runs at %v; want %v", came, want)
		}
		for i := range want {
			if late := came[i] - want[i]; late < 0 || late > 3*time.Minute {
				t.Errorf("run %d at %s; want %s", i, came[i], want[i])
			}
		}
	})
}

// gate holds the runs of one mark until it is opened.
type gate struct {
	mark   string
	opened chan struct{}
}

func newGate(mark string) *gate { return &gate{mark: mark, opened: make(chan struct{})} }

func (g *gate) pass(ctx context.Context, mark string) {
	if mark == g.mark {
		select {
		case <-g.opened:
		case <-ctx.Done():
		}
	}
}

// TestRingsDuringARun checks that rings during a run cause one run after it, and that nothing else waits for that
// run.
func TestRingsDuringARun(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		bell := store.NewLocalBell()
		r := surfacetest.OpenRouter(t, ledger.Options{Path: enginetest.Place(t), Bell: bell})
		clearSchedules(t, r)
		addSchedule(t, r, "bell", orchestrator.Doorbell)
		runs, g := make(chan string, 1000), newGate("bell")
		defer startScheduler(t, r, doing(t, func(ctx context.Context, _ commands.Env, mark string) error {
			runs <- mark
			g.pass(ctx, mark)
			return nil
		}))()
		if mark := <-runs; mark != "bell" {
			t.Fatalf("%s ran first", mark)
		}
		for range 3 {
			bell.Ring()
			synctest.Wait()
		}
		addSchedule(t, r, "often", "@every 1s")
		for range 3 {
			if mark := <-runs; mark != "often" {
				t.Errorf("%s ran while the bell's run was under way", mark)
			}
		}
		close(g.opened)
		synctest.Wait()
		if n := len(runs); n != 1 {
			t.Fatalf("%d runs after three rings; want 1", n)
		}
		if mark := <-runs; mark != "bell" {
			t.Errorf("%s ran", mark)
		}
	})
}

// TestRunsDoNotOverlap checks that a run that takes longer than its period does not overlap with the next run, even
// if its schedule is changed meanwhile.
func TestRunsDoNotOverlap(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		r := openRouter(t, enginetest.Place(t), nil)
		clearSchedules(t, r)
		addSchedule(t, r, "slow", "@every 1s")
		runs, g := make(chan string, 1000), newGate("slow")
		defer startScheduler(t, r, doing(t, func(ctx context.Context, _ commands.Env, mark string) error {
			runs <- mark
			g.pass(ctx, mark)
			return nil
		}))()
		<-runs
		<-time.After(5 * time.Second)
		changed := orchestrator.Schedule{Name: "slow", Spec: "@every 2s", Command: "tick",
			Params: []byte(`{"mark":"changed"}`)}
		if _, err := schedules.Add(t.Context(), r.Ledger, changed); err != nil {
			t.Fatal(err)
		}
		<-time.After(10 * time.Second)
		if n := len(runs); n != 0 {
			t.Errorf("%d runs beside the one under way: %s", n, <-runs)
		}
		close(g.opened)
		for range 2 {
			if mark := <-runs; mark != "changed" {
				t.Errorf("%s ran after the change", mark)
			}
		}
	})
}

// TestRunThatReads checks that messages read by a scheduled command stay unread, since nobody sees them.
func TestRunThatReads(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		r := surfacetest.OpenRouter(t,
			ledger.Options{Path: enginetest.Place(t),
				Transports: map[string]orchestrator.Transport{"inbox": transport.Inbox{}}})
		clearSchedules(t, r)
		for _, name := range []string{"a", "b"} {
			if _, _, err := agents.Add(t.Context(), r.Ledger, agents.Update{Name: name}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := messages.Send(t.Context(), r.Ledger,
			orchestrator.Draft{Sender: "a", Recipient: "b", Payload: []byte(`1`)}); err != nil {
			t.Fatal(err)
		}
		read := orchestrator.Schedule{Name: "read", Spec: "@every 1s", Command: "wait",
			Params: []byte(`{"recipient":"b","timeout":0}`)}
		if _, err := schedules.Add(t.Context(), r.Ledger, read); err != nil {
			t.Fatal(err)
		}
		stop := startScheduler(t, r, surfacetest.Catalogue())
		<-time.After(5 * time.Second)
		stop()
		ms, _, err := reading.Wait(t.Context(), r.Ledger, reading.Options{Recipient: "b", Limit: 10})
		if err != nil || len(ms) != 1 {
			t.Errorf("%d messages are unread: %v", len(ms), err)
		}
		shown, err := ledger.ReadValue(t.Context(), r.Ledger, func(c *store.Conn) (int64, error) {
			return c.Number(`SELECT count(*) FROM message_trace WHERE event = 'released'`)
		})
		if err != nil || shown == 0 {
			t.Errorf("it was handed out %d times: %v", shown, err)
		}
	})
}

// TestRunThatPanics checks that a panic ends only its own run.
func TestRunThatPanics(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		r := openRouter(t, enginetest.Place(t), nil)
		clearSchedules(t, r)
		addSchedule(t, r, "often", "@every 1s")
		addSchedule(t, r, "bell", orchestrator.Doorbell)
		runs := make(chan string, 1000)
		defer startScheduler(t, r, doing(t, func(_ context.Context, _ commands.Env, mark string) error {
			runs <- mark
			panic(mark)
		}))()
		for seen := map[string]int{}; seen["often"] < 3 || seen["bell"] < 2; {
			seen[<-runs]++
		}
	})
}

// TestLastingFailuresAreLoggedOnce checks that, while the database is gone, the log reports the failure of the
// schedules and of each run once, and their recovery once.
func TestLastingFailuresAreLoggedOnce(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		folder := filepath.Join(t.TempDir(), "database")
		r := openRouter(t, filepath.Join(folder, "mailroom.db"), nil)
		clearSchedules(t, r)
		addSchedule(t, r, "often", "@every 1s")
		addSchedule(t, r, "claimed", "@every 1m")
		var fails, runs atomic.Int32 // runs that failed; runs that worked afterwards
		catalogue := doing(t, func(ctx context.Context, env commands.Env, mark string) error {
			_, err := agents.List(ctx, env.Ledger)
			if err != nil {
				fails.Add(1)
			} else if fails.Load() > 0 {
				runs.Add(1)
			}
			return err
		})
		var log bytes.Buffer
		env := commands.Env{Engine: r, Caller: commands.Caller{Admin: true},
			Log: slog.New(slog.NewTextHandler(&log, nil)), Catalogue: catalogue}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- newScheduler(env, newMetrics(r.Ledger, "test", env.Log)).run(ctx) }()
		<-time.After(5 * time.Second)
		move := func(from, to string) {
			t.Helper()
			if err := os.Rename(from, to); err != nil {
				t.Fatal(err)
			}
			<-time.After(3 * time.Minute)
		}
		move(folder, folder+"-gone")
		move(folder+"-gone", folder)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if fails.Load() < 100 || runs.Load() < 100 {
			t.Errorf("%d runs failed, then %d did not", fails.Load(), runs.Load())
		}
		for says, times := range map[string]int{
			"cannot read the schedules": 1, "the schedules can be read again": 1, "a scheduled run failed": 2,
			"a scheduled run succeeded again": 2,
		} {
			if n := strings.Count(log.String(), `msg="`+says); n != times {
				t.Errorf("%d times: %s; want %d\n%s", n, says, times, &log)
			}
		}
	})
}

// hanging is a transport that blocks until its context ends.
type hanging struct{ began chan struct{} }

func (h hanging) Check(address string) (string, error) { return address, nil }
func (h hanging) MaxBatch() int                        { return 1 }
func (h hanging) Deliver(ctx context.Context, a orchestrator.Attempt) []error {
	close(h.began)
	<-ctx.Done()
	return []error{ctx.Err()}
}

// delivering returns a vocabulary of one command that delivers messages and sends their recipients to a channel.
func delivering(t *testing.T, delivered chan<- string) *commands.Catalogue {
	t.Helper()
	return doing(t, func(ctx context.Context, env commands.Env, _ string) error {
		d, err := env.Engine.DeliverAll(ctx, delivery.Options{Background: true})
		if err != nil && ctx.Err() == nil {
			t.Error(err)
		}
		for _, s := range d.Summary {
			if s.Delivered > 0 {
				delivered <- s.Recipient
			}
		}
		return nil
	})
}

// TestSlowTransportDelaysNoInbox checks that a hanging transport delays only its own recipient, and that the message
// is given back when the daemon stops, without a step in its retry schedule.
func TestSlowTransportDelaysNoInbox(t *testing.T) {
	t.Parallel()
	bubble(t, func(t *testing.T) {
		h := hanging{began: make(chan struct{})}
		r := surfacetest.OpenRouter(t, ledger.Options{
			Path:       enginetest.Place(t),
			Transports: map[string]orchestrator.Transport{"inbox": transport.Inbox{}, "hang": h},
		})
		clearSchedules(t, r)
		addSchedule(t, r, "bell", orchestrator.Doorbell)
		for name, deliver := range map[string]string{"reader": "inbox", "stuck": "hang:x"} {
			if _, _, err := agents.Add(t.Context(), r.Ledger,
				agents.Update{Name: name, Deliver: &deliver}); err != nil {
				t.Fatal(err)
			}
		}
		send := func(to string) string {
			sent, err := messages.Send(t.Context(), r.Ledger,
				orchestrator.Draft{Sender: "reader", Recipient: to, Type: "note"})
			if err != nil {
				t.Fatal(err)
			}
			return sent.MessageID
		}
		delivered := make(chan string, 1000)
		stop := startScheduler(t, r, delivering(t, delivered))
		stuck := send("stuck")
		<-h.began
		begin := time.Now()
		for range 3 {
			send("reader")
			if to := <-delivered; to != "reader" {
				t.Errorf("delivered to %s", to)
			}
		}
		if took := time.Since(begin); took != 0 {
			t.Errorf("inboxes waited %s", took)
		}
		stop()
		r.Drain()
		if took := time.Since(begin); took == 0 || took >= exitWithin {
			t.Errorf("stopping took %s", took)
		}
		state, err := overview.Status(t.Context(), r.Ledger)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range state.Recipients {
			if b.Recipient == "stuck" && (b.Pending != 1 || b.Retry != 0 || b.Leased != 0) {
				t.Errorf("%s after the stop: %+v", stuck, b)
			}
		}
	})
}

// TestPlansByTheEnginesClock checks that cron gets due times by this machine's clock if the engine uses another
// clock.
func TestPlansByTheEnginesClock(t *testing.T) {
	t.Parallel()
	plan, err := cron.ParseStandard("0 9 * * *")
	if err != nil {
		t.Fatal(err)
	}
	for _, ahead := range []time.Duration{0, 5 * time.Minute, -5 * time.Minute} {
		bubble(t, func(t *testing.T) {
			by := byClock{plan, func() time.Time { return time.Now().Add(ahead) }}
			next := by.Next(time.Now())
			if at := next.Add(ahead); at.Hour() != 9 || at.Minute() != 0 || at.Second() != 0 {
				t.Errorf("%s ahead, it is due at %s by the engine's clock", ahead, at)
			}
		})
	}
}
