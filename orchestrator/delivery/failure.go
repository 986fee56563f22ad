package delivery

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v4"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/tracing"
)

// attemptFailed records that the current attempt at m failed, and schedules a retry or gives the message up. It
// returns the time of the next attempt, or "" if there is none. A permanent outcome gives the message up at once. An
// outcome with a wait delays the next attempt, but not longer than the longest wait of the retry schedule. m must be
// live and unchanged since the caller read it.
func attemptFailed(t *ledger.Tx, m *orchestrator.Message, out *outcome) (retryAt string, err error) {
	reason, permanent := out.reason, out.permanent
	conf := t.Config()
	wait, more := nextRung(&conf.Settings, m)
	if !permanent && !more && mayHaveArrived(t.Ledger, m) {
		// Its transport could not be asked, repeatedly. The marks stay, so that a replay asks first.
		reason = fmt.Sprintf("%s. The result of an earlier attempt is unknown: %v", reason, orchestrator.ErrUndecidable)
	}
	if permanent || !more {
		event := t.Event(tracing.AttemptFailed, reason)
		event.Detail = out.detail
		if err := t.NoteEvent(ledger.BySeq(m.Seq), event); err != nil {
			return "", err
		}
		if permanent {
			// It can no longer be determined whether the message arrived. Whoever replays it accepts that it may
			// arrive again.
			if err := t.Run(`UPDATE agent_message SET delivery_marks = '' WHERE seq = ?`, m.Seq); err != nil {
				return "", err
			}
		}
		return "", GiveUp(t, m, reason, true)
	}
	if asked := min(out.wait, HighestRung(&conf.Settings)); asked > wait {
		wait, reason = asked, reason+"; the recipient asked for no further attempt within "+
			orchestrator.FormatDuration(asked)
	}
	retryAt = orchestrator.Stamp(t.Clock.Add(wait))
	say(t, slog.LevelInfo, "a delivery failed and will be retried", m, "attempt", m.Attempt(), "retry_at", retryAt,
		"reason", reason)
	_, err = t.ChangeStatus(ledger.BySeq(m.Seq),
		ledger.Change{To: orchestrator.Retry, Attempted: true, Event: tracing.AttemptFailed, Failure: reason,
			Detail: out.detail, Next: retryAt})
	return retryAt, err
}

// mayHaveArrived reports whether an attempt left a mark with a transport that can be asked about the message, so that
// the result of the attempt is still unknown.
func mayHaveArrived(l *ledger.Ledger, m *orchestrator.Message) bool {
	for target := range MarksOf(m) {
		transport, _ := l.TransportOf(target)
		if _, ok := transport.(orchestrator.Recoverer); ok {
			return true
		}
	}
	return false
}

// GiveUp makes a live message a dead letter and notifies its sender. attempted is true if an attempt ends with it.
func GiveUp(t *ledger.Tx, m *orchestrator.Message, reason string, attempted bool) error {
	if isTest(m) {
		return testFailed(t, m, reason)
	}
	retries := m.Attempt() - 1
	if !attempted {
		retries = m.RetryCount
	}
	if _, err := t.ChangeStatus(ledger.BySeq(m.Seq),
		ledger.Change{To: orchestrator.Failed, Event: tracing.Failed, Failure: reason,
			Attempted: attempted}); err != nil {
		return err
	}
	level := slog.LevelWarn
	if span := tracing.FromContext(t.Ctx); span != nil && !span.Scheduled {
		level = slog.LevelInfo // the output of the command reports the dead letter
	}
	say(t, level, "a message became a dead letter", m, "retries", retries, "reason", reason)
	return Bounce(t, m, orchestrator.DeliveryFailed, reason, retries)
}

// say logs the outcome for a message once the outcome is on the disk.
func say(t *ledger.Tx, level slog.Level, what string, m *orchestrator.Message, more ...any) {
	args := append([]any{"message_id", m.ID, "sender", m.Sender, "recipient", m.Recipient}, more...)
	t.AfterCommit(func() { t.Ledger.Log.Log(context.Background(), level, what, args...) })
}

// Bounce sends one error_report to the sender of a message that failed or expired. The engine's own messages never
// bounce. Neither do notifications of the end of a session, because the report would start the session again. An
// unknown sender gets no report, and neither does a sender whose report the database rejects. Source: contract, "The
// ladder and retention".
func Bounce(t *ledger.Tx, m *orchestrator.Message, code orchestrator.Code, reason string, retries int) error {
	conf := t.Config()
	sender := conf.Agents[m.Sender]
	if sender == nil || !conf.Settings.Bounce || m.Type == orchestrator.IdleNotification && sender.StartCommand != "" {
		return nil
	}
	payload, err := json.Marshal(map[string]any{
		"error": code, "message": reason, "message_id": m.ID, "recipient": m.Recipient, "message_type": m.Type,
		"retry_count": retries,
	})
	if err != nil {
		return err
	}
	_, err = t.RowSavepoint("reporting its end to its sender", m.ID,
		func() error { return t.TellSender(m, "error_report", payload) })
	return err
}

// ladder is the retry schedule of one message as a backoff.BackOff: the waits before the second, third, ... attempt,
// and Stop once the retries are used up. If a message allows more retries than the schedule has waits, the last wait
// repeats. Source: document 004, "Retry Strategy"; contract, "The ladder and retention".
type ladder struct {
	rungs      []time.Duration
	maxRetries int
	retries    int // made so far
}

// NextBackOff returns the wait before the next retry, or backoff.Stop.
func (l *ladder) NextBackOff() time.Duration {
	if l.retries >= l.maxRetries {
		return backoff.Stop
	}
	rung := l.rungs[min(l.retries, len(l.rungs)-1)]
	l.retries++
	return rung
}

// Reset restarts the retry schedule.
func (l *ladder) Reset() { l.retries = 0 }

// nextRung returns the wait after a failure of the current attempt at m, and whether m has a retry left.
func nextRung(s *ledger.Settings, m *orchestrator.Message) (time.Duration, bool) {
	var policy backoff.BackOff = &ladder{rungs: s.Ladder, maxRetries: m.MaxRetries, retries: m.Attempt() - 1}
	wait := policy.NextBackOff()
	return wait, wait != backoff.Stop
}

// HighestRung returns the longest wait before another attempt.
func HighestRung(s *ledger.Settings) time.Duration {
	var highest time.Duration
	for _, rung := range s.Ladder {
		highest = max(highest, rung)
	}
	return highest
}
