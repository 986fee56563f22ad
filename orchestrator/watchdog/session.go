package watchdog

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/cenkalti/backoff/v4"

	"mailroom/orchestrator"
	"mailroom/orchestrator/program"
	"mailroom/orchestrator/sessions"
)

// environment returns the variables that a session gets in addition to those of our own environment.
func environment(b *sessions.Begun, database string) []string {
	return []string{
		"MAILROOM_AGENT=" + b.Agent.Name, "MAILROOM_AGENT_SINCE=" + b.Agent.CreatedAt, "MAILROOM_DB=" + database,
		"MAILROOM_MESSAGE_ID=" + b.MessageID, "MAILROOM_UNREAD=" + strconv.Itoa(b.Unread),
		"TRACEPARENT=" + b.Traceparent,
	}
}

// attend waits for the end of a session, records it, and releases the right to run the session, in this order, so
// that nobody starts the next session before the end is recorded. If the database cannot be written for a while,
// attend keeps trying.
func (w *Watchdog) attend(ctx context.Context, b *sessions.Begun, running *program.Running, slot *program.Slot) {
	name := b.Agent.Name
	defer func() {
		w.setOwn(name, nil)
		slot.Release()
		select {
		case w.kick <- struct{}{}:
		default: // it looks anyway
		}
	}()
	w.note(ctx, "that a session was started", name, func() error { return w.sessions.Started(ctx, b, running.PID()) })
	result := running.Wait()
	end := sessions.RunEnd{Outcome: result.How(), Output: result.Output,
		Asked: errors.Is(result.Ended, program.ErrStopped)}
	end.Failed = result.Status != 0
	if result.Ended != nil {
		end.Outcome += fmt.Sprintf(" (%v)", result.Ended)
	}
	w.Log.Info("a session ended", "agent", name, "pid", running.PID(), "outcome", end.Outcome)
	w.note(ctx, "that a session ended", name, func() error { return w.sessions.End(ctx, b, end) })
}

// noteFor is how long a write is retried that the database temporarily refuses.
const noteFor = 10 * time.Minute

// note retries a write until it succeeds or noteFor has passed. If it fails, the next watchdog finds out the result
// by itself.
func (w *Watchdog) note(ctx context.Context, what, agent string, write func() error) {
	patience := backoff.NewExponentialBackOff(backoff.WithInitialInterval(50*time.Millisecond),
		backoff.WithMaxInterval(10*time.Second),
		backoff.WithMaxElapsedTime(noteFor))
	err := backoff.Retry(func() error {
		err := write()
		if code := orchestrator.CodeOf(err); err != nil && code != orchestrator.Busy &&
			code != orchestrator.Unavailable {
			return backoff.Permanent(err)
		}
		return err
	}, backoff.WithContext(patience, ctx))
	if err != nil {
		w.Log.Error("cannot record "+what, "agent", agent, "error", err)
	}
}

// endForeign ends a session that another process started, which may have died since, if its agent has stopped. The
// process that attends to the session, if there is one, does the same.
func (w *Watchdog) endForeign(s *sessions.Session) {
	if s.Stopped == "" || s.Stopped < s.StartedAt {
		return
	}
	pid := program.Holder(program.SlotFolder(w.Ledger.FilePrefix()), s.Agent+".session")
	if pid == 0 {
		return
	}
	since, asked := w.asked[s.Agent]
	if !asked {
		w.asked[s.Agent] = time.Now()
		w.Log.Info("ending a session that another process started because its agent has stopped", "agent", s.Agent,
			"pid", pid)
	}
	program.EndGroup(pid, asked && time.Since(since) >= w.Grace)
}
