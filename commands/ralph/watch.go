package ralph

import (
	"mailroom/commands"
	"mailroom/tracing"
)

// WatchParams selects the folders to watch, and for how long.
type WatchParams struct {
	Root string `json:"root,omitempty" desc:"folder that contains the inbox folders; created if missing" check:"min=1,max=4096" default:".claude/session/messages"`
	Once bool   `json:"once,omitempty" desc:"check once, deliver the messages that are due, and exit"`
	Name string `json:"name,omitempty" desc:"agent that receives the status updates sent to the watchdog" check:"agent" default:"watchdog"`
}

var watchCommand = commands.Define(vocabulary, "watch", watch).
	With(commands.Traits{Kind: tracing.Consumer, HereOnly: true, UntilTold: true})
