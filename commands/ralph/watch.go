package ralph

import (
	"context"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator/bridge"
	"mailroom/orchestrator/bridge/letters"
	"mailroom/orchestrator/watchdog"
	"mailroom/tracing"
)

// WatchParams say which folders are watched, and for how long.
type WatchParams struct {
	Root string `json:"root,omitempty" desc:"folder with the inbox folders; it is made when it is missing" check:"min=1,max=4096" default:".claude/session/messages"`
	Once bool   `json:"once,omitempty" desc:"look once, deliver what is due and answer, instead of watching"`
	Name string `json:"name,omitempty" desc:"agent whose status updates the watch processes" check:"agent" default:"watchdog"`
}

// WatchResult says what was done until the watch ended.
type WatchResult struct {
	Root string `json:"root"`
	bridge.Counts
	Found []letters.Problem `json:"found,omitempty"` // what the problems are, the first 20; only after one look
}

var watchCommand = commands.Define(vocabulary, "watch", watch).
	With(commands.Traits{Kind: tracing.Consumer, HereOnly: true, UntilTold: true})

// watch ends when it is asked to, which is no failure.
func watch(ctx context.Context, env commands.Env, p WatchParams) (WatchResult, error) {
	o := bridge.Options{
		Root: p.Root, Name: p.Name, Log: env.Log,
		Alongside: func(ctx context.Context) error { return watchdog.Run(ctx, env.Ledger, env.Log) },
	}
	run := bridge.Once
	if !p.Once {
		run = bridge.Run
		if env.Call.Narrator != nil {
			env.Call.Narrator.Printf("Watching %s. Stop with Ctrl-C.\n", p.Root)
		}
	}
	counts, err := run(ctx, env.Engine, o)
	r := WatchResult{Root: p.Root, Counts: counts}
	if err == nil && p.Once && counts.Problems > 0 {
		r.Found, err = letters.Problems(ctx, env.Ledger)
		r.Found = r.Found[:min(20, len(r.Found))]
	}
	return r, err
}

// Text says it in a sentence, and where to look for what went wrong.
func (r WatchResult) Text(w *terminal.Text) {
	w.Printf("Taken in: %d. Delivered: %d. Acknowledged: %d. Problems: %d.\n", r.TakenIn, r.Delivered, r.Acknowledged,
		r.Problems)
	for _, p := range r.Found {
		w.Printf("%s: %s\n", p.Path, p.Problem)
	}
	if r.Problems > len(r.Found) {
		w.Printf("`mailroom sql 'SELECT path, problem FROM bridge_problems'` lists the problems.\n")
	}
}
