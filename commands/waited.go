package commands

import (
	"fmt"
	"time"

	"mailroom/orchestrator"
)

// Waited is the part of a command's result that says that it has waited less than it was asked to. The zero value says
// nothing.
type Waited struct {
	Less string `json:"waited,omitempty"`
}

// Wait returns how long a command may wait that was asked to wait for a time.
func (e Env) Wait(asked time.Duration) time.Duration {
	if e.Call.Patience > 0 {
		return min(asked, e.Call.Patience)
	}
	return asked
}

// WaitedFor returns what a command says that was asked to wait for a time and has found nothing.
func (e Env) WaitedFor(asked time.Duration) Waited {
	waited := e.Wait(asked)
	if waited == asked {
		return Waited{}
	}
	return Waited{fmt.Sprintf("%s instead of %s, because the program that called this tool cancels longer calls. To continue waiting, call again",
		orchestrator.FormatDuration(waited), orchestrator.FormatDuration(asked))}
}
