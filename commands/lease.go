package commands

import (
	"mailroom/orchestrator"
	"mailroom/orchestrator/messages"
)

// Lease is the lease under which a caller takes messages with a command; none for no seconds. It ends with the caller's
// process, too, if that shows that the caller has gone.
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

// TellLease says what is to be done with messages that come back.
func TellLease(w *Text, until string) {
	if until != "" {
		w.Printf("They come back at %s unless they are acknowledged.\n", until)
	}
}
