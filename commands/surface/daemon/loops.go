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

// loopsEvery is the interval at which a daemon checks for agents in a loop.
const loopsEvery = 30 * time.Second

// startLoops starts to hold the messages between agents in a loop, in the background, while the setting loop.hold is
// on. It runs until ctx ends or stop is called. stop returns when the background work has ended.
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

// holdLoops holds the messages between agents in a loop, if the setting loop.hold is on. It skips agents without a
// live session of an agent host.
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
