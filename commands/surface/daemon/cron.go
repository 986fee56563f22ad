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

// reloadEvery is how often the scheduler looks whether the schedules were changed.
const reloadEvery = time.Second

// scheduler runs the commands of the table schedules.
type scheduler struct {
	env     commands.Env
	metrics *metrics

	cron      *cron.Cron
	version   string // of the configuration
	loaded    ledger.AfterCommits
	untrusted string               // why only the schedules of every database run; "": all run
	running   map[string]*job      // by name
	trouble   orchestrator.Trouble // with the reading of the schedules
	jobs      sync.WaitGroup
}

// job is one schedule as it runs.
type job struct {
	s        *scheduler
	ctx      context.Context
	schedule orchestrator.Schedule
	command  *commands.Definition
	plan     cron.Schedule // nil for a doorbell: a schedule that runs when a message comes, not at a time
	entry    cron.EntryID
	// a semaphore for one run at a time; when a schedule changes, its new job takes over the old one's
	running chan struct{}
	trouble orchestrator.Trouble // with its runs; to be used while holding running
	asked   chan struct{}        // full while a ring of the doorbell waits for its run to begin
}

func newScheduler(env commands.Env, m *metrics) *scheduler {
	log := cron.PrintfLogger(slog.NewLogLogger(env.Log.Handler(), slog.LevelError)) // writes errors only
	return &scheduler{
		env: env, metrics: m, running: map[string]*job{},
		cron: cron.New(cron.WithLogger(log), cron.WithChain(cron.Recover(log))),
	}
}

// run runs the schedules until ctx ends, then waits for the runs under way. Error: that of the start, or one with
// ErrOutdated when a newer program takes the database over.
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
	s.ring() // what came while nobody listened
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

// load is reload if anybody has committed.
func (s *scheduler) load(ctx context.Context, start bool) error {
	return s.loaded.Do(s.env.Ledger, func() error { return s.reload(ctx, start) })
}

// reload reads the schedules if they have changed. Those that have not go on as they were; runs under way go on too,
// and one of a schedule that has changed ends before the next begins. At the start, runs that were missed are made up.
func (s *scheduler) reload(ctx context.Context, start bool) error {
	version, err := schedules.ConfigVersion(ctx, s.env.Ledger)
	if err != nil || (!start && version == s.version) {
		return err
	}
	if err := ledger.TakesWrites(ctx, s.env.Ledger); err != nil { // where nothing is due, nothing else would find out
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
		case s.running[schedule.Name] != nil: // the name of this one, or of the other, is a BLOB
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

// same reports whether a job does what a schedule says.
func (j *job) same(other *orchestrator.Schedule) bool {
	return j.schedule.Spec == other.Spec && j.schedule.Command == other.Command &&
		string(j.schedule.Params) == string(other.Params) &&
		j.schedule.CreatedAt == other.CreatedAt
}

// add begins to run a schedule, in place of old if that is not nil. A schedule that cannot run is logged and left out.
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

// byClock is a plan by the engine's clock, for cron, which goes by this machine's.
type byClock struct {
	cron.Schedule
	now func() time.Time
}

// Next returns when the plan is due next after a time, both by this machine's clock.
func (p byClock) Next(after time.Time) time.Time {
	ahead := time.Until(p.now())
	next := p.Schedule.Next(after.Add(ahead))
	if next.IsZero() {
		return next
	}
	return next.Add(-ahead)
}

// missed reports whether a run was due while nothing ran.
func (j *job) missed(now time.Time) bool {
	if commands.IsOften(j.plan) {
		return false
	}
	last, err := time.Parse(time.RFC3339, j.schedule.LastRunAt)
	if err != nil { // it has not run yet, or somebody wrote something else there
		last, err = time.Parse(time.RFC3339, j.schedule.CreatedAt)
	}
	return err == nil && !j.plan.Next(last.Local()).After(now)
}

// ring starts a run of each doorbell in the background. Rings that come before that run has begun add nothing to it;
// one that comes later leads to another run.
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

// start does something for a job in the background.
func (s *scheduler) start(j *job, do func()) {
	s.jobs.Add(1)
	orchestrator.GoSafe("schedule "+j.schedule.Name, s.env.Log, func() {
		defer s.jobs.Done()
		do()
	})
}

// answer makes the run that ring asked for, once an earlier run has ended.
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

// Run makes one run, unless one is under way; cron calls it.
func (j *job) Run() {
	select {
	case j.running <- struct{}{}:
	default:
		return
	}
	defer func() { <-j.running }()
	j.perform()
}

// perform makes one run, unless another daemon does. What fails at each run is logged once, until it changes or is
// over. The caller holds running.
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
			commands.Settle(j.ctx, env, answer, false) // nobody reads it
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

// claim makes sure that only one of several daemons makes a run.
func (j *job) claim() (mine bool, err error) {
	if j.plan == nil || commands.IsOften(j.plan) {
		return true, nil
	}
	now := j.s.env.Ledger.Now().Add(time.Second) // cron may come a little early: the clock was read anew meanwhile
	return schedules.ClaimRun(j.ctx, j.s.env.Ledger, j.schedule.Name, j.latestSlot(now))
}

// latestSlot is the time for which this run is made: the last one that the plan names, up to now. It looks back for
// as long as the 29th of February can be away.
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
