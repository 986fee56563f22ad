// Package surface is what the ways by which a request comes in have in common. Each way has a package of its own: cli is the
// command line, mcp serves tools to agents, web is the HTTP API, phone the app for phones, and daemon is what `mailroom serve`
// runs, with its schedules. All of it is derived from the catalogue; no surface knows a command by name.
package surface

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v4"

	"mailroom/commands"
	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// Settle notes whether an answer was written to whoever asked, see commands.Answer.Settle. What cannot be noted now, since the
// database is busy or away, is noted as soon as it can be while this process runs. If that ends before, what was handed out is
// unread again.
func Settle(ctx context.Context, env commands.Env, answer commands.Answer, written bool) {
	ctx = context.WithoutCancel(ctx)
	err := answer.Settle(ctx, env, written)
	if err == nil {
		return
	}
	env.Log.Warn("whether an answer was written could not be noted yet; its messages are shown again if this process ends before it is", "command", answer.Action, "written", written, "error", err)
	orchestrator.GoSafe("settling an answer", env.Log, func() {
		pause := backoff.NewExponentialBackOff(backoff.WithMaxInterval(longestPause), backoff.WithMaxElapsedTime(0))
		_ = backoff.Retry(func() error {
			err := answer.Settle(ctx, env, written)
			if errors.Is(err, store.ErrClosed) {
				return backoff.Permanent(err)
			}
			return err
		}, pause)
	})
}

// longestPause is between two attempts to note whether an answer was written.
const longestPause = 15 * time.Second
