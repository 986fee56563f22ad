package delivery

import (
	"context"
	"maps"
	"slices"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// ClearStaged makes transports remove files that were staged for these targets, and for those of all agents, by an
// attempt whose process died; see orchestrator.Staging. Files of messages that may still be delivered are kept.
// Failures are left for the next call.
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

// clearStagedAt clears one address. It reads the messages only if files are staged there.
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

// TargetsOfEnded returns the targets at which transports left marks for messages that ended undelivered before
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
