package ralph

import (
	"context"

	"mailroom/commands"
	"mailroom/orchestrator/bridge"
	"mailroom/orchestrator/watchdog"
	"mailroom/tracing"
)

// WatchParams say which folders are watched, and for how long.
type WatchParams struct {
	Root string `json:"root,omitempty" desc:"folder with the inbox folders; it is made when it is missing" check:"min=1,max=4096" default:".claude/session/messages"`
	Once bool   `json:"once,omitempty" desc:"look once, deliver what is due and answer, instead of watching"`
	Name string `json:"name,omitempty" desc:"agent whose status updates the watch deals with" check:"agent" default:"watchdog"`
}

// WatchResult says what was done until the watch ended.
type WatchResult struct {
	Root string `json:"root"`
	bridge.Counts
}

var watchCommand = commands.Define(vocabulary, "watch", watch).Kind(tracing.Consumer).HereOnly()

// watch ends when it is asked to, which is no failure.
func watch(ctx context.Context, env commands.Env, p WatchParams) (WatchResult, error) {
	o := bridge.Options{
		Root: p.Root, Name: p.Name, Log: env.Log,
		Beside: func(ctx context.Context) error { return watchdog.Run(ctx, env.Router, env.Log) },
	}
	run := bridge.Once
	if !p.Once {
		run = bridge.Run
		commands.Narrate(ctx, func(w *commands.Text) { w.Printf("Watching %s. Stop with Ctrl-C.\n", p.Root) })
	}
	counts, err := run(ctx, env.Router, o)
	return WatchResult{p.Root, counts}, err
}

// Text says it in a sentence, and where to look for what went wrong.
func (r WatchResult) Text(w *commands.Text) {
	w.Printf("Taken in: %d. Delivered: %d. Acknowledged: %d. Problems: %d.\n", r.TakenIn, r.Delivered, r.Acknowledged, r.Problems)
	if r.Problems > 0 {
		w.Printf("`mailroom doctor` lists the problems.\n")
	}
}
