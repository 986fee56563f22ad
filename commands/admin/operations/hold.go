package operations

import (
	"cmp"
	"context"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/hosts"
)

// HoldParams name two agents.
type HoldParams struct {
	Agent string `json:"agent" desc:"one agent" check:"agent" arg:"1"`
	Other string `json:"other" desc:"the other agent" check:"agent" arg:"2"`
	Off   bool   `json:"off,omitempty" desc:"let go what is held back, and let the two go on for an hour"`
}

// HoldResult says what became of what two agents write to each other.
type HoldResult struct {
	Agents  []string `json:"agents"`
	Held    bool     `json:"held"`     // it is held back now
	Changed bool     `json:"changed"`  // whether this call has changed anything
	Until   string   `json:"until"`    // when it is let go by itself; with off, until when they may go on
	Waiting int      `json:"messages"` // that wait, or were let go
}

var holdCommand = commands.Define(vocabulary, "hold", hold)

func hold(ctx context.Context, env commands.Env, p HoldParams) (r HoldResult, err error) {
	by := cmp.Or(env.Caller.Asks(), "an administrator")
	if p.Off {
		h, let, n, err := hosts.LetGo(ctx, env.Ledger, p.Agent, p.Other, by)
		return HoldResult{Agents: []string{h.A, h.B}, Changed: let, Until: h.Until, Waiting: n}, err
	}
	h, held, n, err := hosts.Hold(ctx, env.Ledger, p.Agent, p.Other, by)
	return HoldResult{Agents: []string{h.A, h.B}, Held: true, Changed: held, Until: h.Until, Waiting: n}, err
}

// Text says it in a sentence.
func (r HoldResult) Text(w *terminal.Text) {
	a, b, n := r.Agents[0], r.Agents[1], orchestrator.Plural(r.Waiting, "message")
	switch {
	case r.Held:
		w.Printf("What %s and %s write to each other is held back until %s, or until `mailroom hold %[1]s %[2]s --off`. Waiting: %[4]s.\n",
			a, b, r.Until, n)
	case r.Changed:
		w.Printf("%s and %s get what they write to each other again, and may go on until %s. Let go: %s.\n", a, b, r.Until, n)
	default:
		w.Printf("Nothing that %s and %s write to each other is held back, and they may go on until %s.\n", a, b, r.Until)
	}
}
