package commands

import (
	"context"

	"mailroom/orchestrator"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/reading"
)

// Lease returns the lease under which a command takes messages for a caller. With 0 seconds there is none, and they are read at
// once. It ends before its time when the caller's process has ended.
func Lease(caller Caller, command string, seconds Seconds) messages.ReadingLease {
	return messages.ReadingLease{For: seconds.Duration(), Holder: command, PID: caller.Process}
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
func TellRest(w *Text, until string, more bool) {
	if until != "" {
		w.Printf("They come back at %s unless they are acknowledged.\n", until)
	}
	if more {
		w.Printf("There are more: ask again.\n")
	}
}

// Taken are messages that a command marks as read with its answer. They are unread again if the answer cannot be written.
type Taken struct{ messages []orchestrator.Message }

// Take returns the messages as Taken; with peek, which left them unread, there are none.
func Take(ms []orchestrator.Message, peek bool) Taken {
	if peek {
		return Taken{}
	}
	return Taken{ms}
}

// Unwritten makes the messages unread again.
func (t Taken) Unwritten(ctx context.Context, env Env) error {
	return reading.Unread(ctx, env.Ledger, t.messages)
}
