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

// Lease returns the lease under which a command takes messages for a caller. Until the answer is written, this
// process holds the lease. After that, with 0 seconds, the messages are read. Otherwise they become unread again
// after that time, or when the caller's process ends, unless they are acknowledged.
func Lease(caller Caller, command string, seconds parameter.Seconds) messages.ReadingLease {
	lease := messages.ReadingLease{For: seconds.Duration(), Holder: command, Writer: process.Self()}
	if caller.Process > 0 {
		lease.Reader = process.Of(caller.Process)
	}
	return lease
}

// LeaseEnd returns when messages that were handed out together become unread again unless they are acknowledged. It
// returns "" if they have no lease.
func LeaseEnd(ms []orchestrator.Message) string {
	for i := range ms {
		if until := ms[i].ShownUntil; until != "" {
			return until
		}
	}
	return ""
}

// TellRest writes when unacknowledged messages become unread again, and that there are more messages.
func TellRest(w *terminal.Text, until string, more bool) {
	if until != "" {
		w.Printf("Messages that are not acknowledged become unread again at %s.\n", until)
	}
	if more {
		w.Printf("There are more messages; to get them, run the command again.\n")
	}
}

// Taken marks the messages of an answer as read, or makes them unread again. The zero value has no messages.
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

// take returns a Taken for messages that were taken under lease. The answer shows the messages in shown and leaves
// out others.
func take(shown, others []orchestrator.Message, lease messages.ReadingLease) Taken {
	return Taken{func(ctx context.Context, env Env, written bool) error {
		if !written {
			return reading.Unread(ctx, env.Ledger, slices.Concat(shown, others))
		}
		return errors.Join(noteWritten(ctx, env, shown, lease), reading.Unread(ctx, env.Ledger, others))
	}}
}

// noteWritten records that the answer with these messages, all to one agent, was written. If a model reads the
// answer, it also records what the messages cost.
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

// TakeLetters returns a Taken for letters in an agent's folder. They need no lease, because they are shown until they
// are acknowledged.
func TakeLetters(agent string, ms []orchestrator.Message) Taken {
	return Taken{func(ctx context.Context, env Env, written bool) error {
		if !written {
			return nil
		}
		return letters.Written(ctx, env.Ledger, agent, ms)
	}}
}
