package orchestrator

import "sync/atomic"

// Attempts counts the deliveries that one Router has tried since it was opened, messages and not runs: a group of
// messages in one attempt counts each. What other processes did is not in it; the trace has everything.
type Attempts struct {
	Delivered int64
	Failed    int64 // the transport refused or broke
	TimedOut  int64 // outlasted the delivery timeout
	GivenUp   int64 // of the failed and timed out ones, those that were the last
}

// attemptCounts are the running counts. The zero value has counted nothing. Safe for concurrent use.
type attemptCounts struct{ delivered, failed, timedOut, givenUp atomic.Int64 }

// Attempts returns what this Router has tried so far. It does not touch the database.
func (r *Router) Attempts() Attempts {
	c := &r.attempts
	return Attempts{Delivered: c.delivered.Load(), Failed: c.failed.Load(), TimedOut: c.timedOut.Load(), GivenUp: c.givenUp.Load()}
}

func (c *attemptCounts) fail(a *FailedAttempt) {
	if a.Code == DeliveryTimeout {
		c.timedOut.Add(1)
	} else {
		c.failed.Add(1)
	}
	if a.RetryAt == "" {
		c.givenUp.Add(1)
	}
}
