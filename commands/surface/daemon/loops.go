package daemon

import (
	"context"
	"log/slog"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/hosts"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/store"
)

// loopsEvery is how often a daemon looks for agents in a loop.
const loopsEvery = 30 * time.Second

// startLoops holds back what agents in a loop write to each other, as long as the setting loop.hold is on, in the
// background, until ctx ends or stop is called, which returns when it has ended.
func startLoops(ctx context.Context, l *ledger.Ledger, log *slog.Logger) (stop func()) {
	return orchestrator.Background(ctx, "loops", log, func(ctx context.Context) {
		var trouble orchestrator.Trouble
		var looked ledger.AfterCommits
		for {
			select {
			case <-time.After(loopsEvery):
			case <-ctx.Done():
				return
			}
			err := looked.Do(l, func() error { return holdLoops(ctx, l, log) })
			if ctx.Err() == nil && trouble.Changed(err) && err != nil {
				log.Warn("cannot hold the messages that two agents send each other in a loop", "error", err)
			}
		}
	})
}

// holdLoops holds back what agents in a loop write to each other, if the setting loop.hold is on. Those without a living
// session of an agent host are passed over.
func holdLoops(ctx context.Context, l *ledger.Ledger, log *slog.Logger) error {
	on := false
	err := l.View(ctx, func(_ *store.Conn, conf *ledger.Config) error {
		on = conf.Settings.HoldLoops
		return nil
	})
	if err != nil || !on {
		return err
	}
	pairs, err := overview.Loops(ctx, l)
	if err != nil {
		return err
	}
	for _, pair := range pairs {
		h, held, n, err := hosts.Hold(ctx, l, pair[0], pair[1], "the setting loop.hold")
		switch {
		case orchestrator.CodeOf(err) == orchestrator.Conflict:
		case err != nil:
			return err
		case held:
			log.Info("holding the messages that two agents send each other in a loop", "agents", pair, "until", h.Until, "messages", n)
		}
	}
	return nil
}
