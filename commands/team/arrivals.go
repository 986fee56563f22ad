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

// Arrivals holds the caller's unread messages. Every answer of this vocabulary carries them, so that messages reach
// teammates without a call that asks for messages. They are read once the answer is written.
type Arrivals struct {
	Messages []Message `json:"messages"`
	More     bool      `json:"more,omitempty"` // more messages are unread: the answer carries as many as it can
	Rest     string    `json:"rest,omitempty"` // for a model: how to get the rest
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

// carried returns an answer that carries messages, with room for its other parts.
func carried(ms []orchestrator.Message) any {
	return []any{renderedAll(ms), commands.Room}
}

func renderedAll(ms []orchestrator.Message) (list []Message) {
	for i := range ms {
		list = append(list, rendered(&ms[i]))
	}
	return list
}

// arrivalsAfter takes an agent's unread messages for a command that has finished its work. It only logs an error, so
// that the error does not look like a failure of the command. Messages that were not read stay unread for the next
// answer.
func arrivalsAfter(ctx context.Context, env commands.Env, agent string) Arrivals {
	a, err := arrivals(ctx, env, agent)
	if err != nil {
		env.Log.Warn("cannot read the unread messages of an agent; Mailroom tries again with the next answer", "agent", agent, "error", err)
	}
	return a
}

// attend takes the unread messages for a command that does nothing else. If there are any, an idle agent becomes
// working again.
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

// text writes the messages, if there are any.
func (a Arrivals) text(w *terminal.Text) {
	for i := range a.Messages {
		a.Messages[i].text(w)
	}
	commands.TellRest(w, "", a.More)
}
