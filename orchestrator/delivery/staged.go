package delivery

import (
	"context"
	"maps"
	"slices"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// ClearStaged lets transports remove what was on its way to these targets, and to those of all agents, when an
// attempt's process died; see orchestrator.Staging. What belongs to messages that may still be delivered stays.
// Failures are left for the next time.
func ClearStaged(ctx context.Context, l *ledger.Ledger, targets ...string) {
	var recipients, all []string
	err := l.View(ctx, func(c *store.Conn, conf *ledger.Config) error {
		removed, err := c.Texts(`SELECT name FROM removed_agents`)
		if err != nil || conf.Untrusted != "" {
			return err
		}
		recipients, all = append(removed, conf.Names...), slices.Clone(targets)
		for _, name := range conf.Names {
			if !conf.Agents[name].Elsewhere() {
				all = append(all, conf.Agents[name].Deliver)
			}
		}
		return nil
	})
	if err != nil || recipients == nil {
		return
	}
	slices.Sort(all)
	for _, target := range slices.Compact(all) {
		transport, address := l.TransportOf(target)
		staging, ok := transport.(orchestrator.Staging)
		if !ok || ctx.Err() != nil {
			continue
		}
		if err := clearStagedAt(ctx, l, staging, address, recipients); err != nil {
			l.Log.Warn("cannot remove the files of unfinished deliveries", "target", target, "error", err)
		}
	}
}

// clearStagedAt clears one address. Only if something is staged there it walks through all messages.
func clearStagedAt(ctx context.Context, l *ledger.Ledger, staging orchestrator.Staging, address string,
	recipients []string) error {
	return staging.ClearStaged(l.Path(), address, recipients, func() ([]orchestrator.Message, error) {
		return ledger.ReadValue(ctx, l, func(c *store.Conn) ([]orchestrator.Message, error) {
			return store.List(c, func(row store.Row) orchestrator.Message {
				return orchestrator.Message{ID: row.Text(0), Recipient: row.Text(1)}
			},
				`SELECT message_id, recipient FROM agent_message WHERE status IS DISTINCT FROM 'delivered'
					AND (lease_token <> '' OR delivery_marks <> '')`)
		})
	})
}

// TargetsOfEnded returns the targets at which transports have left marks with messages that ended undelivered before
// cutoff.
func TargetsOfEnded(ctx context.Context, l *ledger.Ledger, cutoff string) (targets []string, err error) {
	marks, err := ledger.ReadValue(ctx, l, func(c *store.Conn) ([]string, error) {
		return c.Texts(`SELECT DISTINCT delivery_marks FROM agent_message
			WHERE ended_at <> '' AND ended_at < ? AND status IS DISTINCT FROM 'delivered' AND delivery_marks <> ''`, cutoff)
	})
	for _, text := range marks {
		targets = slices.AppendSeq(targets, maps.Keys(MarksOf(&orchestrator.Message{Marks: text})))
	}
	return targets, err
}
