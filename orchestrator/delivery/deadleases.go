package delivery

import (
	"context"
	"slices"
	"time"

	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/store"
)

// deadEvery is how often an engine looks for leases whose holder is dead.
const deadEvery = time.Second

// deadDue reports whether it is time to look again, and notes that somebody does.
func (e *Engine) deadDue() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.Now()
	if since := now.Sub(e.lookedForDead); since >= 0 && since < deadEvery {
		return false
	}
	e.lookedForDead = now
	return true
}

// endDeadLeases lets the leases run out whose holders are known to be dead, so that Tidy takes their rows back, and ends
// those of readers whose process has ended.
func (e *Engine) endDeadLeases(ctx context.Context) error {
	if !e.deadDue() {
		return nil
	}
	if _, err := messages.EndDeadReaders(ctx, e.Ledger, ""); err != nil {
		return err
	}
	tokens, err := ledger.Ask(ctx, e.Ledger, func(c *store.Conn) ([]string, error) {
		return c.Texts(`SELECT DISTINCT lease_token FROM agent_message WHERE ` + ledger.Leased)
	})
	dead := slices.DeleteFunc(tokens, func(token string) bool { return !e.Store.Gone(token) })
	if err != nil || len(dead) == 0 {
		return err
	}
	return e.Write(ctx, store.Shared, func(t *ledger.Tx) error {
		for _, token := range dead {
			if err := t.Run(`UPDATE agent_message SET lease_until = ?1 WHERE `+ledger.Leased+` AND lease_token = ?2`, t.ClockText, token); err != nil {
				return err
			}
		}
		return nil
	})
}
