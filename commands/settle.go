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

// Handed is a result that holds something until its answer is written, such as messages leased to this process. See
// Answer.Settle.
type Handed interface {
	Settle(ctx context.Context, env Env, written bool) error
}

// Settle must be called once it is known whether the answer was written, which means that the kernel accepted all of
// it for the caller. If it was written, the messages in it are read. Otherwise they become unread again. Results that
// are not Handed need nothing. A second call after an error tries again.
func (a Answer) Settle(ctx context.Context, env Env, written bool) error {
	handed, ok := a.Result.(Handed)
	if !ok {
		return nil
	}
	return handed.Settle(tracing.Within(ctx, a.span), env, written)
}

// Settle settles an answer for a surface. If the database is busy or unreachable, Settle retries in the background
// while this process runs. If the process ends first, the messages become unread again.
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

// longestPause is the longest pause between two attempts to record whether an answer was written.
const longestPause = 15 * time.Second

// takenKey is the context key of a *[]Taken: what a command has handed out so far.
type takenKey struct{}

// Hand returns the messages that the answer of a command shows (see Env.Shown). If the command took the messages
// under a lease returned by Lease, the shown messages are read once the answer is written, and the others become
// unread again. If the command fails, all of them become unread again.
func Hand(ctx context.Context, env Env, ms []orchestrator.Message, lease messages.ReadingLease,
	answer func(ms []orchestrator.Message) any) ([]orchestrator.Message, Taken) {
	shown := env.Shown(ms, answer)
	if !slices.ContainsFunc(ms, func(m orchestrator.Message) bool { return m.ShownAt != "" }) {
		return shown, Taken{} // the command did not take them
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
