package operations

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/hosts"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
)

// HoldParams names two agents. Without agents, the holds are listed.
type HoldParams struct {
	Agent string `json:"agent,omitempty" desc:"one agent; without agents, the holds are listed" check:"agent" arg:"1"`
	Other string `json:"other,omitempty" desc:"the other agent" check:"agent" arg:"2"`
	Off   bool   `json:"off,omitempty" desc:"release the held messages; for an hour, Mailroom does not hold messages between the two agents or report a loop"`
}

// HoldResult holds the state of the messages between two agents, or lists the holds.
type HoldResult struct {
	Agents  []string `json:"agents,omitempty"`
	Held    bool     `json:"held"`            // the messages are held now
	Changed bool     `json:"changed"`         // whether this call changed anything
	Until   string   `json:"until,omitempty"` // end of the hold; with off, end of the time in which no hold begins
	Waiting int      `json:"messages"`        // number of messages that wait, or were released

	Holds []HoldLine `json:"holds,omitempty"`
}

// HoldLine is a pair of agents whose messages are held, or were released.
type HoldLine struct {
	Agents []string `json:"agents"`
	Held   bool     `json:"held"` // false: released
	Since  string   `json:"since"`
	Until  string   `json:"until"`
	By     string   `json:"by"`
}

var holdCommand = commands.Define(vocabulary, "hold", hold)

func hold(ctx context.Context, env commands.Env, p HoldParams) (r HoldResult, err error) {
	switch {
	case p.Agent == "" && p.Other == "" && !p.Off:
		return listHolds(ctx, env)
	case p.Agent == "" || p.Other == "":
		return r, orchestrator.Errorf(orchestrator.InvalidParams, "give the names of two agents").
			WithHint("Use the form `mailroom hold alice bob`")
	}
	by := cmp.Or(env.Caller.Asks(), "an administrator")
	if p.Off {
		h, let, n, err := hosts.LetGo(ctx, env.Ledger, p.Agent, p.Other, by)
		return HoldResult{Agents: []string{h.A, h.B}, Changed: let, Until: h.Until, Waiting: n}, err
	}
	h, held, n, err := hosts.Hold(ctx, env.Ledger, p.Agent, p.Other, by)
	return HoldResult{Agents: []string{h.A, h.B}, Held: true, Changed: held, Until: h.Until, Waiting: n}, err
}

func listHolds(ctx context.Context, env commands.Env) (r HoldResult, err error) {
	now := orchestrator.Stamp(env.Ledger.Now())
	err = env.Ledger.View(ctx, func(_ *store.Conn, conf *ledger.Config) error {
		r.Holds = slices.Concat(lines(conf.Holds(now), true), lines(conf.GoOns(now), false))
		return nil
	})
	return r, err
}

func lines(holds []ledger.Hold, held bool) (list []HoldLine) {
	for _, h := range holds {
		list = append(list, HoldLine{Agents: []string{h.A, h.B}, Held: held, Since: h.Since, Until: h.Until, By: h.By})
	}
	return list
}

// textHolds writes the list of holds.
func (r HoldResult) textHolds(w *terminal.Text) {
	if len(r.Holds) == 0 {
		w.Printf("No messages between agents are held.\n")
		return
	}
	terminal.TableOf(w, []string{"AGENTS", "STATE", "UNTIL", "BY"}, r.Holds, func(h *HoldLine) []string {
		state := "released"
		if h.Held {
			state = "held"
		}
		return []string{strings.Join(h.Agents, " and "), state, w.When(h.Until), h.By}
	})
}

// Text writes the result for people.
func (r HoldResult) Text(w *terminal.Text) {
	if r.Agents == nil {
		r.textHolds(w)
		return
	}
	a, b, n := r.Agents[0], r.Agents[1], orchestrator.Plural(r.Waiting, "message")
	switch {
	case r.Held:
		w.Printf("Messages between %s and %s are held until %s. To release them earlier, run `mailroom hold %[1]s %[2]s --off`. Waiting: %[4]s.\n",
			a, b, r.Until, n)
	case r.Changed:
		w.Printf("Released %[4]s between %[1]s and %[2]s. Until %[3]s, Mailroom does not report a loop between the two agents.\n", a, b, r.Until, n)
	default:
		w.Printf("No messages between %s and %s are held. Until %s, Mailroom does not report a loop between the two agents.\n", a, b, r.Until)
	}
}
