// Package surface is what the ways by which a request comes in have in common. Each way has a package of its own: cli is the
// command line, mcp serves tools to agents, web is the HTTP API, phone the app for phones, and daemon is what `mailroom serve`
// runs, with its schedules. All of it is derived from the catalogue; no surface knows a command by name.
package surface

import (
	"context"

	"mailroom/commands"
)

// TakeBack undoes what a command marked, such as messages as read, when its answer did not reach the caller. An error is only
// logged, since there is nobody to tell.
func TakeBack(ctx context.Context, env commands.Env, answer commands.Answer) {
	back, ok := answer.Result.(commands.Unwritten)
	if !ok {
		return
	}
	if err := back.Unwritten(context.WithoutCancel(ctx), env); err != nil {
		env.Log.Error("an answer that was not taken could not be undone", "command", answer.Action, "error", err)
	}
}
