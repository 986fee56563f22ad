package delivery

import (
	"time"

	"github.com/cenkalti/backoff/v4"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
)

// ladder is the retry policy as a backoff.BackOff: the waits before the second, third, ... attempt of one message, and
// Stop once its retries are used up. When a message allows more retries than there are rungs, the last rung repeats.
// Source: document 004, "Retry Strategy"; contract, "The ladder and retention".
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

// Reset goes back to the foot of the ladder.
func (l *ladder) Reset() { l.retries = 0 }

// nextRung returns the wait after the attempt that m is making failed, and false when that was its last.
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
