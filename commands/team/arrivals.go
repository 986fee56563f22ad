package team

import (
	"context"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/teams"
)

// maxArrivals bounds the messages that one answer carries.
const maxArrivals = 100

// Arrivals are the caller's unread messages, which every answer of the vocabulary carries: messages reach teammates
// without their asking. They are read once the answer was written.
type Arrivals struct {
	Messages []Message `json:"messages"`
	More     bool      `json:"more,omitempty"` // there are others: the answer carries as many as it can
	Rest     string    `json:"rest,omitempty"` // for a model: how to get those
	commands.Taken
}

// arrivals takes an agent's unread messages.
func arrivals(ctx context.Context, env commands.Env, agent string) (Arrivals, error) {
	lease := commands.Lease(env.Caller, "team", 0)
	ms, more, err := reading.Wait(ctx, env.Ledger,
		reading.Options{Recipient: agent, Limit: maxArrivals, Lease: lease, Fits: env.Fits(carried)})
	if err != nil {
		return Arrivals{}, err
	}
	shown, taken := commands.Hand(ctx, env, ms, lease, carried)
	more = more || len(shown) < len(ms)
	return Arrivals{Messages: renderedAll(shown), More: more, Rest: env.Rest(more, "call team_messages"), Taken: taken},
		nil
}

// carried is an answer that carries messages, with room for what else it says.
func carried(ms []orchestrator.Message) any {
	return []any{renderedAll(ms), commands.Room}
}

func renderedAll(ms []orchestrator.Message) (list []Message) {
	for i := range ms {
		list = append(list, rendered(&ms[i]))
	}
	return list
}

// arrivalsAfter is arrivals for a command that has done its work: a failure to read must not pass for a failure of
// that. What was not read stays unread for the next answer.
func arrivalsAfter(ctx context.Context, env commands.Env, agent string) Arrivals {
	a, err := arrivals(ctx, env, agent)
	if err != nil {
		env.Log.Warn("cannot read the unread messages of an agent; Mailroom tries again with the next answer", "agent", agent, "error", err)
	}
	return a
}

// attend takes the unread messages for a command that does nothing else. An agent that was idle is working again if
// something came for it.
func attend(ctx context.Context, env commands.Env, agent string) (Arrivals, error) {
	a, err := arrivals(ctx, env, agent)
	if err != nil || len(a.Messages) == 0 {
		return a, err
	}
	if err := takePart(ctx, env, agent, true); err != nil {
		env.Log.Warn("cannot update the presence of the agent", "agent", agent, "error", err)
	}
	return a, nil
}

func takePart(ctx context.Context, env commands.Env, agent string, began bool) error {
	return teams.TakePart(ctx, env.Ledger, agents.Joining{Session: env.Caller.Session, Agent: agent}, began)
}

// text shows the messages, if there are any.
func (a Arrivals) text(w *terminal.Text) {
	for i := range a.Messages {
		a.Messages[i].text(w)
	}
	commands.TellRest(w, "", a.More)
}
