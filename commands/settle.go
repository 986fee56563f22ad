package commands

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v4"

	"mailroom/orchestrator"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/store"
	"mailroom/tracing"
)

// Handed is a result that holds something until its answer was written, such as messages that are leased to this
// process, see Answer.Settle.
type Handed interface {
	Settle(ctx context.Context, env Env, written bool) error
}

// Settle is called once it is known whether the answer was written: whether the kernel has taken all of it for whoever
// asked. What was handed out with an answer that was written is read; otherwise it is unread again. Nothing else is to
// be settled. A second call after an error tries again.
func (a Answer) Settle(ctx context.Context, env Env, written bool) error {
	handed, ok := a.Result.(Handed)
	if !ok {
		return nil
	}
	return handed.Settle(tracing.Within(ctx, a.span), env, written)
}

// Settle is Answer.Settle for a surface. What cannot be noted now, since the database is busy or away, is noted as soon
// as it can be while this process runs. If that ends before, what was handed out is unread again.
func Settle(ctx context.Context, env Env, answer Answer, written bool) {
	ctx = context.WithoutCancel(ctx)
	settle := func() error { return answer.Settle(ctx, env, written) }
	err := settle()
	if err == nil {
		return
	}
	env.Log.Warn("cannot yet record whether an answer was written; if this process ends first, Mailroom shows the messages in the answer again",
		"command", answer.Action, "written", written, "error", err)
	orchestrator.GoSafe("settling an answer", env.Log, func() {
		pause := backoff.NewExponentialBackOff(backoff.WithMaxInterval(longestPause), backoff.WithMaxElapsedTime(0))
		_ = backoff.Retry(func() error {
			err := settle()
			if errors.Is(err, store.ErrClosed) || store.IsRefused(err) {
				return backoff.Permanent(err)
			}
			return err
		}, pause)
	})
}

// longestPause is between two attempts to note whether an answer was written.
const longestPause = 15 * time.Second

// takenKey is for a context's *[]Taken: what a command has handed out so far.
type takenKey struct{}

// Hand returns those of the messages that the answer of a command shows, see Env.Shown. If the command has taken them
// under a lease of Lease, they are read once the answer was written. Those that it does not show are unread again, and
// so are all if the command fails.
func Hand(ctx context.Context, env Env, ms []orchestrator.Message, lease messages.ReadingLease,
	answer func(ms []orchestrator.Message) any) ([]orchestrator.Message, Taken) {
	shown := env.Shown(ms, answer)
	if !slices.ContainsFunc(ms, func(m orchestrator.Message) bool { return m.ShownAt != "" }) {
		return shown, Taken{} // they were only looked at
	}
	others := ms[len(shown):]
	if reading.Unread(ctx, env.Ledger, others) == nil {
		others = nil
	}
	taken := take(ms[:len(shown)], others, lease)
	if all, ok := ctx.Value(takenKey{}).(*[]Taken); ok {
		*all = append(*all, taken)
	}
	return shown, taken
}
