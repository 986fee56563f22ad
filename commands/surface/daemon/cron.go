package daemon

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/robfig/cron/v3"

	"mailroom/commands"
	"mailroom/orchestrator"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/schedules"
	"mailroom/orchestrator/store"
)

// reloadEvery is the interval at which the scheduler checks whether the schedules have changed.
const reloadEvery = time.Second

// scheduler runs the commands of the table schedules.
type scheduler struct {
	env     commands.Env
	metrics *metrics

	cron      *cron.Cron
	version   string // of the configuration
	loaded    ledger.AfterCommits
	untrusted string               // why only the schedules of every database run; "" if all run
	running   map[string]*job      // by name
	trouble   orchestrator.Trouble // with reading the schedules
	jobs      sync.WaitGroup
}

// job is one running schedule.
type job struct {
	s        *scheduler
	ctx      context.Context
	schedule orchestrator.Schedule
	command  *commands.Definition
	plan     cron.Schedule // nil for a doorbell, a schedule that runs when a message arrives
	entry    cron.EntryID
	// running is a semaphore for one run at a time. When a schedule changes, its new job takes over that of the old
	// one.
	running chan struct{}
	trouble orchestrator.Trouble // with its runs; guarded by running
	asked   chan struct{}        // full while a requested run of the doorbell has not begun
}

func newScheduler(env commands.Env, m *metrics) *scheduler {
	log := cron.PrintfLogger(slog.NewLogLogger(env.Log.Handler(), slog.LevelError)) // writes errors only
	return &scheduler{
		env: env, metrics: m, running: map[string]*job{},
		cron: cron.New(cron.WithLogger(log), cron.WithChain(cron.Recover(log))),
	}
}

// run runs the schedules until ctx ends, and then waits for the current runs. It returns an error if the start fails,
// or ErrOutdated if a newer program takes the database over.
func (s *scheduler) run(ctx context.Context) error {
	wakeups, stop, err := delivery.Wakeups(ctx, s.env.Ledger)
	if err != nil {
		return err
	}
	defer stop()
	if err := s.load(ctx, true); err != nil {
		return err
	}
	s.cron.Start()
	reload := time.NewTimer(orchestrator.Until(reloadEvery))
	defer reload.Stop()
	defer func() {
		<-s.cron.Stop().Done()
		s.jobs.Wait()
	}()
	s.ring() // for messages that arrived while nobody listened
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-wakeups:
			s.ring()
		case <-reload.C:
			err := s.load(ctx, false)
			reload.Reset(orchestrator.Until(reloadEvery))
			if errors.Is(err, store.ErrOutdated) {
				s.env.Log.Error("the daemon is stopping", "error", err)
				return err
			}
			switch {
			case !s.trouble.Changed(err):
			case err != nil:
				s.env.Log.Warn("cannot read the schedules; the previous schedules continue", "error", err)
			default:
				s.env.Log.Info("the schedules can be read again")
			}
		}
	}
}

// load reloads the schedules if anybody has committed a transaction since the last call.
func (s *scheduler) load(ctx context.Context, start bool) error {
	return s.loaded.Do(s.env.Ledger, func() error { return s.reload(ctx, start) })
}

// reload reads the schedules if they have changed. Unchanged schedules continue. Current runs continue, too: if the
// schedule of such a run has changed, its next run waits for the end of the current one. At the start, missed runs
// are made up.
func (s *scheduler) reload(ctx context.Context, start bool) error {
	version, err := schedules.ConfigVersion(ctx, s.env.Ledger)
	if err != nil || (!start && version == s.version) {
		return err
	}
	// If no schedule is due, nothing else would detect this.
	if err := ledger.TakesWrites(ctx, s.env.Ledger); err != nil {
		return err
	}
	list, untrusted, err := schedules.Runnable(ctx, s.env.Ledger)
	if err != nil {
		return err
	}
	if untrusted != "" && untrusted != s.untrusted {
		s.env.Log.Warn(ledger.NotTrusted, "database", s.env.Ledger.Path(), "reason", untrusted, "do",
			ledger.NotTrustedHint)
	}
	s.untrusted = untrusted
	s.version = version
	before := s.running
	s.running = map[string]*job{}
	for _, schedule := range list {
		switch old := before[schedule.Name]; {
		case !schedule.Enabled:
		case s.running[schedule.Name] != nil: // possible if one of the names is a BLOB
			s.env.Log.Error("a schedule cannot run because another schedule has the same name", "schedule", schedule.Name)
		case old != nil && old.same(&schedule):
			s.running[schedule.Name] = old
			delete(before, schedule.Name)
		default:
			s.add(ctx, schedule, old, start)
		}
	}
	for _, gone := range before {
		if gone.plan != nil {
			s.cron.Remove(gone.entry)
		}
	}
	return nil
}

// same reports whether a job matches a schedule.
func (j *job) same(other *orchestrator.Schedule) bool {
	return j.schedule.Spec == other.Spec && j.schedule.Command == other.Command &&
		string(j.schedule.Params) == string(other.Params) &&
		j.schedule.CreatedAt == other.CreatedAt
}

// add starts to run a schedule, in place of old unless that is nil. It logs a schedule that cannot run and leaves it
// out.
func (s *scheduler) add(ctx context.Context, schedule orchestrator.Schedule, old *job, start bool) {
	j := &job{s: s, ctx: ctx, schedule: schedule, running: make(chan struct{}, 1), asked: make(chan struct{}, 1)}
	if old != nil {
		j.running = old.running
	}
	var err error
	if j.command, j.plan, err = s.env.Catalogue.Runs(&schedule, s.env.Ledger.Now()); err != nil {
		s.env.Log.Error("a schedule cannot run", "schedule", schedule.Name, "error", err)
		return
	}
	s.running[schedule.Name] = j
	if j.plan == nil {
		return // a doorbell
	}
	j.entry = s.cron.Schedule(byClock{j.plan, s.env.Ledger.Now}, j)
	if start && j.missed(s.env.Ledger.Now()) {
		s.env.Log.Info("running a schedule that missed a run", "schedule", schedule.Name, "last_run_at", schedule.LastRunAt)
		s.start(j, j.Run)
	}
}

// byClock is a schedule by the engine's clock. Package cron uses this machine's clock.
type byClock struct {
	cron.Schedule
	now func() time.Time
}

// Next returns the next time that is due after a time. Both are by this machine's clock.
func (p byClock) Next(after time.Time) time.Time {
	ahead := time.Until(p.now())
	next := p.Schedule.Next(after.Add(ahead))
	if next.IsZero() {
		return next
	}
	return next.Add(-ahead)
}

// missed reports whether a run was due while no daemon ran.
func (j *job) missed(now time.Time) bool {
	if commands.IsOften(j.plan) {
		return false
	}
	last, err := time.Parse(time.RFC3339, j.schedule.LastRunAt)
	if err != nil { // never run, or an invalid value
		last, err = time.Parse(time.RFC3339, j.schedule.CreatedAt)
	}
	return err == nil && !j.plan.Next(last.Local()).After(now)
}

// ring starts a run of each doorbell in the background. Further rings before the run has begun have no effect; a ring
// after that leads to another run.
func (s *scheduler) ring() {
	for _, j := range s.running {
		if j.plan != nil {
			continue
		}
		select {
		case j.asked <- struct{}{}:
			s.start(j, j.answer)
		default:
		}
	}
}

// start calls do for a job in the background.
func (s *scheduler) start(j *job, do func()) {
	s.jobs.Add(1)
	orchestrator.GoSafe("schedule "+j.schedule.Name, s.env.Log, func() {
		defer s.jobs.Done()
		do()
	})
}

// answer performs the run that ring requested, after an earlier run has ended.
func (j *job) answer() {
	select {
	case j.running <- struct{}{}:
	case <-j.ctx.Done():
		return
	}
	defer func() { <-j.running }()
	<-j.asked
	j.perform()
}

// Run performs one run, unless another run of the job is in progress. Package cron calls it.
func (j *job) Run() {
	select {
	case j.running <- struct{}{}:
	default:
		return
	}
	defer func() { <-j.running }()
	j.perform()
}

// perform performs one run, unless another daemon does. It logs a repeated error once, until the error changes or
// ends. The caller holds running.
func (j *job) perform() {
	if j.ctx.Err() != nil {
		return
	}
	log := j.s.env.Log.With("schedule", j.schedule.Name, "command", j.command.Name)
	mine, err := j.claim()
	if err == nil {
		if !mine {
			return
		}
		started := time.Now()
		env := j.s.env
		env.Call.Scheduled = true
		var answer commands.Answer
		if answer, err = j.command.Run(j.ctx, env, j.schedule.Params); err == nil {
			commands.Settle(j.ctx, env, answer, false) // nobody reads the answer
		}
		j.s.metrics.ran(j.command.Name, time.Since(started), err)
		log.Debug("ran", "seconds", time.Since(started).Seconds(), "error", err)
	}
	switch {
	case errors.Is(err, context.Canceled) || !j.trouble.Changed(err):
	case err != nil:
		log.Error("a scheduled run failed", "error", err)
	default:
		log.Info("a scheduled run succeeded again")
	}
}

// claim ensures that only one of several daemons performs a run.
func (j *job) claim() (mine bool, err error) {
	if j.plan == nil || commands.IsOften(j.plan) {
		return true, nil
	}
	now := j.s.env.Ledger.Now().Add(time.Second) // cron may be slightly early, because the clock was read again since
	return schedules.ClaimRun(j.ctx, j.s.env.Ledger, j.schedule.Name, j.latestSlot(now))
}

// latestSlot returns the time for which this run is performed: the latest time of the schedule that is not after now.
// It looks back far enough for the 29th of February.
func (j *job) latestSlot(now time.Time) time.Time {
	from := now.Add(-time.Minute)
	for _, back := range []time.Duration{time.Hour, 24 * time.Hour, 32 * 24 * time.Hour, 367 * 24 * time.Hour,
		4 * 366 * 24 * time.Hour} {
		if !j.plan.Next(from.Local()).After(now) {
			break
		}
		from = now.Add(-back)
	}
	slot := j.plan.Next(from.Local())
	for next := j.plan.Next(slot); !next.IsZero() && !next.After(now); next = j.plan.Next(next) {
		slot = next
	}
	if slot.IsZero() || slot.After(now) {
		return now
	}
	return slot
}
