package commands

import (
	"fmt"
	"time"

	"mailroom/orchestrator"
)

// Waited is the part of a command's result that explains that the command waited for less than the requested time.
// The zero value is empty.
type Waited struct {
	Less string `json:"waited,omitempty"`
}

// Wait returns how long a command may wait if the caller asked for the given time.
func (e Env) Wait(asked time.Duration) time.Duration {
	if e.Call.Patience > 0 {
		return min(asked, e.Call.Patience)
	}
	return asked
}

// WaitedFor returns the note for a command that waited and found nothing. asked is the requested time.
func (e Env) WaitedFor(asked time.Duration) Waited {
	waited := e.Wait(asked)
	if waited == asked {
		return Waited{}
	}
	return Waited{fmt.Sprintf("%s instead of %s, because the program that called this tool cancels longer calls. To continue waiting, call again",
		orchestrator.FormatDuration(waited), orchestrator.FormatDuration(asked))}
}
