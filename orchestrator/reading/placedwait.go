package reading

import (
	"context"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/messages"
)

// placedAgain is how often somebody who waits for what is placed looks: the end of a delivery that another process makes rings
// no bell.
const placedAgain = time.Second

// WaitPlaced is messages.ReadPlaced that waits until there is something, or the timeout ends; no messages and no error means
// that the timeout ended. It delivers what is due to the agent beforehand. With mark, it also shows that the agent is alive,
// whatever it finds. Errors: busy; context.Cause(ctx) if ctx ended.
func WaitPlaced(ctx context.Context, e *delivery.Engine, agent, target string, limit int, mark bool, timeout time.Duration) (
	ms, fresh []orchestrator.Message, more bool, err error) {
	deadline := e.Now().Add(timeout)
	var rings <-chan bool
	var heard time.Time
	var silent time.Duration
	for {
		due, _, err := delivery.AnythingDue(ctx, e.Ledger)
		if err == nil && due {
			_, err = e.DeliverAll(ctx, delivery.Options{Recipient: agent})
		}
		if err == nil {
			ms, fresh, more, err = messages.ReadPlaced(ctx, e.Ledger, agent, target, limit, mark)
		}
		if err != nil || len(ms) > 0 {
			return ms, fresh, more, err
		}
		if now := e.Now(); now.Sub(heard) >= silent/2 {
			heard, silent = now, agents.Heartbeat(ctx, e.Ledger, agent, mark)
		}
		left := deadline.Sub(e.Now())
		if left <= 0 {
			return nil, nil, false, nil
		}
		if rings == nil {
			var stop func()
			if rings, stop, err = e.Store.Bell().Listen(ctx, agent); err != nil {
				return nil, nil, false, err
			}
			defer stop()
			continue // something may have come before it listened
		}
		timer := time.NewTimer(min(left, placedAgain))
		select {
		case <-rings:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, nil, false, context.Cause(ctx)
		}
		timer.Stop()
	}
}
