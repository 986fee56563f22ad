package ralph

import (
	"mailroom/commands"
	"mailroom/tracing"
)

// WatchParams say which folders are watched, and for how long.
type WatchParams struct {
	Root string `json:"root,omitempty" desc:"folder with the inbox folders; it is made when it is missing" check:"min=1,max=4096" default:".claude/session/messages"`
	Once bool   `json:"once,omitempty" desc:"look once, deliver what is due and answer, instead of watching"`
	Name string `json:"name,omitempty" desc:"agent whose status updates the watch processes" check:"agent" default:"watchdog"`
}

var watchCommand = commands.Define(vocabulary, "watch", watch).
	With(commands.Traits{Kind: tracing.Consumer, HereOnly: true, UntilTold: true})
