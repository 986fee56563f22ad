package commands

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"mailroom/commands/parameter"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/bridge/letters"
	"mailroom/orchestrator/cost"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/process"
	"mailroom/orchestrator/reading"
)

// Lease returns the lease under which a command takes messages for a caller. Until its answer was written it is this
// process's. Then, with 0 seconds, the messages are read. Otherwise they come back after that time, or when the
// caller's process has ended, unless they are acknowledged.
func Lease(caller Caller, command string, seconds parameter.Seconds) messages.ReadingLease {
	lease := messages.ReadingLease{For: seconds.Duration(), Holder: command, Writer: process.Self()}
	if caller.Process > 0 {
		lease.Reader = process.Of(caller.Process)
	}
	return lease
}

// LeaseEnd is when messages that were handed out together come back unless they are acknowledged; "" when they do not.
func LeaseEnd(ms []orchestrator.Message) string {
	for i := range ms {
		if until := ms[i].ShownUntil; until != "" {
			return until
		}
	}
	return ""
}

// TellRest says what is to be done with messages that come back, and that there are others.
func TellRest(w *terminal.Text, until string, more bool) {
	if until != "" {
		w.Printf("Messages that are not acknowledged become unread again at %s.\n", until)
	}
	if more {
		w.Printf("There are more messages; to get them, run the command again.\n")
	}
}

// Taken confirms, or gives back, the messages of an answer. In the zero value there are none.
type Taken struct {
	settle func(ctx context.Context, env Env, written bool) error
}

// Settle implements Handed.
func (t Taken) Settle(ctx context.Context, env Env, written bool) error {
	if t.settle == nil {
		return nil
	}
	return t.settle(ctx, env, written)
}

// take returns messages that were taken under a lease of Lease, of which an answer shows some and leaves the others
// out.
func take(shown, others []orchestrator.Message, lease messages.ReadingLease) Taken {
	return Taken{func(ctx context.Context, env Env, written bool) error {
		if !written {
			return reading.Unread(ctx, env.Ledger, slices.Concat(shown, others))
		}
		return errors.Join(noteWritten(ctx, env, shown, lease), reading.Unread(ctx, env.Ledger, others))
	}}
}

// noteWritten notes that the answer with these messages, all to one agent, was written and, where a model reads it, what
// that costs.
func noteWritten(ctx context.Context, env Env, ms []orchestrator.Message, lease messages.ReadingLease) error {
	if !env.Call.Model {
		return reading.Written(ctx, env.Ledger, ms, lease)
	}
	return reading.Written(ctx, env.Ledger, ms, lease, func(t *ledger.Tx) error {
		uses := make([]cost.Use, len(ms))
		for i := range ms {
			uses[i] = cost.Use{Sender: ms[i].Sender, Type: ms[i].Type, Way: cost.WayTool, Messages: 1, Bytes: min(len(Told(&ms[i])), MaxPart)}
		}
		return cost.Note(t, cmp.Or(ms[0].Reader, ms[0].Recipient), uses)
	})
}

// TakeLetters returns letters that lie in an agent's folder. They are shown until they are acknowledged, so that they
// need no lease.
func TakeLetters(agent string, ms []orchestrator.Message) Taken {
	return Taken{func(ctx context.Context, env Env, written bool) error {
		if !written {
			return nil
		}
		return letters.Written(ctx, env.Ledger, agent, ms)
	}}
}
