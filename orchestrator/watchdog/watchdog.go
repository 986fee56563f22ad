// Package watchdog starts the sessions of agents. It runs the command from `agent add --start` when messages wait for
// the agent and no session of the agent is running. Any number of watchdogs may serve one database, in any number of
// processes.
package watchdog

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/program"
	"mailroom/orchestrator/sessions"
)

// usualGrace is how long a session may take to end after its agent has stopped.
const usualGrace = 10 * time.Second

// The end of a session that another process started, or whose process died, causes no wakeup here, so the watchdog
// looks again after foreignPoll. While the database cannot be read or written, it looks again after troublePoll. For
// a session that must start later, it looks again after at most planPoll, since the clock may be set meanwhile.
const (
	foreignPoll = 2 * time.Second
	troublePoll = 5 * time.Second
	planPoll    = time.Second
)

// Watchdog starts and ends the sessions of a database's agents.
type Watchdog struct {
	Ledger *ledger.Ledger
	Log    *slog.Logger
	// Grace is the time from SIGTERM to SIGKILL for a session whose agent has stopped. 0 means 10 s.
	Grace time.Duration

	sessions *sessions.Sessions
	kick     chan struct{}
	looked   bool                 // look has succeeded at least once
	stopped  map[string]string    // by agent: when it stopped, as of the last look; "" if it has not
	said     map[string]string    // by agent: the last error that was logged
	asked    map[string]time.Time // by agent: when another process's session was sent SIGTERM, see endForeign

	mu      sync.Mutex
	running map[string]*program.Running // sessions of this process, by agent
}

// Run starts the sessions of agents until ctx ends. Then it returns at once, and the sessions go on. The next
// watchdog, in this process or another, does not start a second session of an agent whose session is still running.
// Error: that of delivery.Wakeups.
func Run(ctx context.Context, l *ledger.Ledger, log *slog.Logger) error {
	return (&Watchdog{Ledger: l, Log: log}).Run(ledger.WithIdentity(ctx, ""))
}

// Start runs a watchdog in the background, until ctx ends or stop is called. stop returns when the watchdog has
// ended.
func Start(ctx context.Context, l *ledger.Ledger, log *slog.Logger) (stop func()) {
	return orchestrator.Background(ctx, "watchdog", log, func(ctx context.Context) {
		if err := Run(ctx, l, log); err != nil && ctx.Err() == nil {
			log.Error("the sessions of agents are not monitored", "error", err)
		}
	})
}

// Run starts the sessions of agents until ctx ends, with the settings of w. Afterwards w must not be used again.
// Error: that of delivery.Wakeups.
func (w *Watchdog) Run(ctx context.Context) error {
	w.Grace = cmp.Or(w.Grace, usualGrace)
	w.sessions, w.kick = sessions.New(w.Ledger), make(chan struct{}, 1)
	w.stopped, w.said = map[string]string{}, map[string]string{}
	w.asked, w.running = map[string]time.Time{}, map[string]*program.Running{}
	wakeups, stop, err := delivery.Wakeups(ctx, w.Ledger)
	if err != nil {
		return err
	}
	defer stop()
	for {
		var later <-chan time.Time
		if again := w.look(ctx); again != 0 {
			later = time.After(again)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-wakeups:
		case <-w.kick:
		case <-later:
		}
	}
}

// look starts and ends sessions as needed. It returns the longest time until the next look; 0 means the next wakeup.
func (w *Watchdog) look(ctx context.Context) (again time.Duration) {
	list, err := w.sessions.Look(ctx)
	if err != nil {
		w.complain(ctx, "", err)
		return troublePoll
	}
	delete(w.said, "")
	soon := func(d time.Duration) {
		if again == 0 || d < again {
			again = d
		}
	}
	for i := range list {
		s := &list[i]
		w.endStopped(s)
		if w.own(s.Agent) != nil {
			continue // its end sends on kick
		}
		if s.Command { // the log may be that of another process's session or of an ended one
			_, _ = program.BoundLog(sessions.Output(w.Ledger, s.Agent)) // each look tries again
		}
		if s.Running || s.Wanted {
			switch err := w.start(ctx, s); {
			case errors.Is(err, orchestrator.ErrNoSlot):
				w.endForeign(s)
				soon(foreignPoll)
			case err != nil:
				w.complain(ctx, s.Agent, err)
				soon(troublePoll)
			default:
				delete(w.said, s.Agent)
			}
			continue
		}
		if !s.NextAt.IsZero() {
			soon(max(min(s.NextAt.Sub(w.Ledger.Now()), planPoll), time.Millisecond))
		}
	}
	w.looked = true
	return again
}

// complain logs the error that prevents the session of an agent, or of all agents if agent is "", from being started
// or ended. It logs an error once, until another error follows or a look succeeds.
func (w *Watchdog) complain(ctx context.Context, agent string, err error) {
	if ctx.Err() != nil || w.said[agent] == err.Error() {
		return
	}
	w.said[agent] = err.Error()
	if agent == "" {
		w.Log.Warn("cannot monitor the sessions of agents", "error", err)
		return
	}
	w.Log.Error("cannot start the session of an agent", "agent", agent, "error", err)
}

func (w *Watchdog) own(agent string) *program.Running {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.running[agent]
}

func (w *Watchdog) setOwn(agent string, r *program.Running) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r == nil {
		delete(w.running, agent)
	} else {
		w.running[agent] = r
	}
}

// endStopped ends the commands that this process runs for an agent that has stopped: its session, and the commands of
// the transport exec. It does so once each time the agent stops.
func (w *Watchdog) endStopped(s *sessions.Session) {
	if s.Stopped == w.stopped[s.Agent] {
		return
	}
	w.stopped[s.Agent] = s.Stopped
	if s.Stopped == "" || !w.looked {
		return // at the first look, the agent stopped before the watchdog began; its commands are newer
	}
	for _, r := range program.EndAll(w.key(s.Agent), program.ErrStopped) {
		w.Log.Info("ending a command because its agent has stopped", "agent", s.Agent, "pid", r.PID())
	}
}

func (w *Watchdog) key(agent string) string { return program.KeyOf(w.Ledger.Path(), agent) }

// start starts a session, unless it need not be started after all. It returns orchestrator.ErrNoSlot if another
// process runs the session. For a session whose monitoring process has died, it records the end.
func (w *Watchdog) start(ctx context.Context, s *sessions.Session) error {
	slot, err := program.TakeSlot(program.SlotFolder(w.Ledger.FilePrefix()), s.Agent+".session")
	if err != nil {
		return err
	}
	delete(w.asked, s.Agent)
	lost := ""
	if s.Running {
		lost, _ = program.ReadLog(sessions.Output(w.Ledger, s.Agent)) // there is no log if it was not started
	}
	begun, err := w.sessions.Begin(ctx, s.Agent, lost)
	if err != nil || begun == nil {
		slot.Release()
		return err
	}
	ctx = context.WithoutCancel(ctx) // a session goes on when the watchdog stops
	running, err := program.Start(ctx, w.command(begun, slot))
	if err != nil {
		defer slot.Release()
		w.Log.Error("cannot start the session of an agent", "agent", s.Agent, "error", err)
		return w.sessions.End(ctx, begun, sessions.RunEnd{Outcome: "not started: " + err.Error(), Failed: true})
	}
	w.Log.Info("started a session", "agent", s.Agent, "pid", running.PID(), "message_id", begun.MessageID, "unread",
		begun.Unread)
	w.setOwn(s.Agent, running)
	orchestrator.GoSafe("session of "+s.Agent, w.Log, func() { w.attend(ctx, begun, running, slot) })
	return nil
}

func (w *Watchdog) command(b *sessions.Begun, slot *program.Slot) program.Command {
	return program.Command{
		Text: b.Agent.StartCommand, Folder: b.Agent.Folder, Slot: slot, Log: sessions.Output(w.Ledger, b.Agent.Name),
		Key: w.key(b.Agent.Name), Grace: w.Grace,
		Env: environment(b, w.Ledger.Path()), Passes: b.Agent.PassEnv,
	}
}
