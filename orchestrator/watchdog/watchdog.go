// Package watchdog starts the sessions of agents: it runs the command set with `agent add --start` when messages
// wait for the agent and its session is not running. Any number of watchdogs, in any number of processes, may serve
// one database.
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

// usualGrace is how long a session may take to end once its agent has stopped.
const usualGrace = 10 * time.Second

// This process is not notified of the end of a session that another process started, so it checks such a session
// every foreignPoll. While the database cannot be read or written, it tries every troublePoll. It checks a session
// that is to be started later every planPoll, because the clock may be set meanwhile.
const (
	foreignPoll = 2 * time.Second
	troublePoll = 5 * time.Second
	planPoll    = time.Second
)

// Watchdog monitors the sessions of a database.
type Watchdog struct {
	Ledger *ledger.Ledger
	Log    *slog.Logger
	// Grace is the time from SIGTERM to SIGKILL for a session whose agent has stopped; 0: 10 s.
	Grace time.Duration

	sessions *sessions.Sessions
	kick     chan struct{}
	looked   bool                 // at least once
	stopped  map[string]string    // time of the stop of each agent whose commands were ended for it
	said     map[string]string    // last error logged, by agent
	asked    map[string]time.Time // when sessions of other processes were sent SIGTERM, see endForeign

	mu      sync.Mutex
	running map[string]*program.Running // sessions of this process, by agent
}

// Run starts the sessions of agents until ctx ends. It then returns at once. Running sessions go on, and the next
// watchdog, in this process or another, does not start a second session beside them. Error: that of
// delivery.Wakeups.
func Run(ctx context.Context, l *ledger.Ledger, log *slog.Logger) error {
	return (&Watchdog{Ledger: l, Log: log}).Run(ledger.WithIdentity(ctx, ""))
}

// Start runs a watchdog in the background until ctx ends or stop is called. Stop waits until the watchdog has
// ended.
func Start(ctx context.Context, l *ledger.Ledger, log *slog.Logger) (stop func()) {
	return orchestrator.Background(ctx, "watchdog", log, func(ctx context.Context) {
		if err := Run(ctx, l, log); err != nil && ctx.Err() == nil {
			log.Error("the sessions of agents are not monitored", "error", err)
		}
	})
}

// Run starts the sessions of agents until ctx ends, like the function Run, with the settings of w. A Watchdog must
// not be used again.
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

// look starts and ends sessions as required. It returns the time until the next look at the latest; 0 is until the
// next wake-up.
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
		if s.Command { // another process may run it, or it may be a leftover of an ended session
			_, _ = program.BoundLog(sessions.Output(w.Ledger, s.Agent)) // retried at each look
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

// complain logs an error about the session of an agent, or about all sessions if agent is "". It logs the same
// error only once.
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

// endStopped ends the commands that this process runs for an agent that has stopped, once for each stop: its
// session and the commands of the transport exec.
func (w *Watchdog) endStopped(s *sessions.Session) {
	if s.Stopped == w.stopped[s.Agent] {
		return
	}
	w.stopped[s.Agent] = s.Stopped
	if s.Stopped == "" || !w.looked {
		return // at the first look, the agent stopped before us, and its running commands began later
	}
	for _, r := range program.EndAll(w.key(s.Agent), program.ErrStopped) {
		w.Log.Info("ending a command because its agent has stopped", "agent", s.Agent, "pid", r.PID())
	}
}

func (w *Watchdog) key(agent string) string { return program.KeyOf(w.Ledger.Path(), agent) }

// start starts a session, unless it turns out that none is to be started. If another process runs the session,
// start returns orchestrator.ErrNoSlot. If the process of a session has died, start records that the session ended.
func (w *Watchdog) start(ctx context.Context, s *sessions.Session) error {
	slot, err := program.TakeSlot(program.SlotFolder(w.Ledger.FilePrefix()), s.Agent+".session")
	if err != nil {
		return err
	}
	delete(w.asked, s.Agent)
	lost := ""
	if s.Running {
		lost, _ = program.ReadLog(sessions.Output(w.Ledger, s.Agent)) // there is no log if the session was not started
	}
	begun, err := w.sessions.Begin(ctx, s.Agent, lost)
	if err != nil || begun == nil {
		slot.Release()
		return err
	}
	ctx = context.WithoutCancel(ctx) // running sessions go on when the watchdog stops
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
