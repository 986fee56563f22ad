package ralph

import (
	"context"

	"mailroom/commands"
	"mailroom/commands/parameter"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/bridge/letters"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/reading"
	"mailroom/tracing"
)

// InboxParams selects the messages to show.
type InboxParams struct {
	Agent      string            `json:"agent,omitempty" desc:"agent that reads its inbox; may be left out if the caller's credential names it" check:"agent"`
	MarkAsRead bool              `json:"markAsRead,omitempty" desc:"mark the messages as read" default:"true"`
	Limit      int               `json:"limit,omitempty" desc:"maximum number of messages" check:"min=1,max=100" default:"50"`
	Lease      parameter.Seconds `json:"lease,omitempty" desc:"seconds until messages become unread again unless acknowledged; default: shown messages are marked as read" check:"min=1,max=86400"`
	Wait       parameter.Seconds `json:"wait,omitempty" desc:"seconds to wait if there are no messages; default: 0" check:"min=0,max=3600"`
}

// InboxResult holds the messages: by priority, then oldest first.
type InboxResult struct {
	Agent    string     `json:"agent"`
	Count    int        `json:"count"`
	HasMore  bool       `json:"has_more"` // there are more messages
	Messages []Received `json:"messages"`
	Rest     string     `json:"rest,omitempty"`        // for a model: how to get the rest
	Until    string     `json:"lease_until,omitempty"` // when unacknowledged messages become unread again
	commands.Waited
	commands.Taken
}

var inboxCommand = commands.Define(vocabulary, "inbox", inbox).With(commands.Traits{Kind: tracing.Consumer})

// inbox delivers what is due to the agent, and returns its messages.
func inbox(ctx context.Context, env commands.Env, p InboxParams) (InboxResult, error) {
	name, err := commands.ActAs(env.Caller, p.Agent)
	if err != nil {
		return InboxResult{}, err
	}
	agent, err := agents.Get(ctx, env.Ledger, name)
	if err == nil {
		if _, ok := folderOf(&agent); ok && p.Lease > 0 {
			return InboxResult{},
				orchestrator.Errorf(orchestrator.InvalidParams,
					"lease: not supported for %s, because messages in its folder are shown until they are acknowledged", agent.Name).
					WithHint("Omit `lease`")
		} else if ok {
			return inboxOfFolder(ctx, env, &agent, p)
		}
	} else if orchestrator.CodeOf(err) != orchestrator.NotFound { // the agent may be about to register itself
		return InboxResult{}, err
	}
	answer := func(ms []orchestrator.Message) any { return showInbox(name, ms) }
	lease := commands.Lease(env.Caller, "ralph inbox", p.Lease)
	ms, more, err := reading.Wait(ctx, env.Ledger, reading.Options{
		Recipient: name, Timeout: env.Wait(p.Wait.Duration()), Limit: p.Limit, Peek: !p.MarkAsRead, Lease: lease,
		Fits: env.Fits(answer),
	})
	if err != nil {
		return InboxResult{}, err
	}
	shown, taken := commands.Hand(ctx, env, ms, lease, answer)
	r := showInbox(name, shown)
	r.HasMore, r.Taken = more || len(shown) < len(ms), taken
	r.Rest = env.Rest(r.HasMore, "call inbox again")
	if len(ms) == 0 {
		r.Waited = env.WaitedFor(p.Wait.Duration())
	}
	return r, nil
}

// inboxOfFolder returns the messages in an agent's inbox folder according to the database: those that were delivered
// to the folder and are not acknowledged.
func inboxOfFolder(ctx context.Context, env commands.Env, agent *ledger.Agent, p InboxParams) (InboxResult, error) {
	answer := func(ms []orchestrator.Message) any { return showInbox(agent.Name, ms) }
	in, err := letters.Wait(ctx, env.Engine, letters.Request{
		Agent: agent.Name, Target: agent.Deliver, Limit: p.Limit, Mark: p.MarkAsRead, Fits: env.Fits(answer),
	}, env.Wait(p.Wait.Duration()))
	if err != nil {
		return InboxResult{}, err
	}
	r := showInbox(agent.Name, env.Shown(in.Messages, answer))
	r.HasMore, r.Rest = in.More, env.Rest(in.More, "acknowledge these messages, and call inbox again")
	if len(in.Fresh) > 0 {
		r.Taken = commands.TakeLetters(agent.Name, in.Fresh)
	}
	if len(in.Messages) == 0 {
		r.Waited = env.WaitedFor(p.Wait.Duration())
	}
	return r, nil
}

func showInbox(agent string, ms []orchestrator.Message) InboxResult {
	r := InboxResult{Agent: agent, Count: len(ms), Messages: make([]Received, len(ms)), Until: commands.LeaseEnd(ms)}
	for i := range ms {
		r.Messages[i] = render(&ms[i])
	}
	return r
}

// Text writes each message.
func (r InboxResult) Text(w *terminal.Text) {
	if r.Count == 0 {
		w.Printf("The inbox of %s is empty.\n", r.Agent)
	}
	for i := range r.Messages {
		r.Messages[i].text(w)
	}
	commands.TellRest(w, r.Until, r.HasMore)
}
