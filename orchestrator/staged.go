package orchestrator

import (
	"context"
	"maps"
	"slices"

	"mailroom/orchestrator/store"
)

// clearStaged has transports remove what attempts whose process died have left on its way to these targets, and to those of all
// agents, unless the message may still be asked for. Where that fails, it is for another time: nobody waits for it.
func (r *Router) clearStaged(ctx context.Context, targets ...string) {
	var conf *config
	var recipients []string
	err := r.read(ctx, func(c *Conn) (err error) {
		if conf, err = r.config.load(c); err == nil {
			recipients, err = c.texts(`SELECT name FROM removed_agents`)
		}
		return err
	})
	if err != nil || conf.untrusted != "" {
		return
	}
	recipients = append(recipients, conf.names...)
	all := map[string]bool{}
	for _, target := range targets {
		all[target] = true
	}
	for _, name := range conf.names {
		all[conf.agents[name].Deliver] = true
	}
	for _, target := range slices.Sorted(maps.Keys(all)) {
		transport, address := r.transportOf(target)
		staging, ok := transport.(Staging)
		if !ok || ctx.Err() != nil {
			continue
		}
		if err := r.clearStagedAt(ctx, staging, address, recipients); err != nil {
			r.log.Warn("what was left on its way could not be removed", "target", target, "error", err)
		}
	}
}

func (r *Router) clearStagedAt(ctx context.Context, staging Staging, address string, recipients []string) error {
	return staging.ClearStaged(r.Path(), address, recipients, func() (needed []Message, err error) {
		err = r.read(ctx, func(c *Conn) error {
			return c.query(`SELECT message_id, recipient FROM agent_message
				WHERE status IS NOT 'delivered' AND (lease_token <> '' OR delivery_marks <> '')`, func(row store.Row) error {
				needed = append(needed, Message{ID: row.Text(0), Recipient: row.Text(1)})
				return nil
			})
		})
		return needed, err
	})
}

// targetsOfEnded are the targets whose transports have left notes with undelivered messages that ended before cutoff.
func (r *Router) targetsOfEnded(ctx context.Context, cutoff string) (targets []string, err error) {
	err = r.read(ctx, func(c *Conn) error {
		return c.query(`SELECT DISTINCT delivery_marks FROM agent_message
			WHERE ended_at <> '' AND ended_at < ? AND status IS NOT 'delivered' AND delivery_marks <> ''`, func(row store.Row) error {
			targets = slices.AppendSeq(targets, maps.Keys((&Message{marks: row.Text(0)}).marksOf()))
			return nil
		}, cutoff)
	})
	return targets, err
}
