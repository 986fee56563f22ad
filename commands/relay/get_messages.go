package relay

import (
	"context"
	"errors"

	"mailroom/commands"
	"mailroom/commands/parameter"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/reading"
	"mailroom/tracing"
)

// GetMessagesParams selects the unread messages to get. Source: document 000, "get_messages".
type GetMessagesParams struct {
	SessionID  string            `json:"sessionId,omitempty" desc:"program, or a session that it takes part in; may be left out if the caller's credential names it" check:"max=256"`
	Target     string            `json:"target,omitempty" desc:"only messages to this program or group" check:"agent|group|role"`
	MarkAsRead bool              `json:"markAsRead,omitempty" desc:"mark the messages as read" default:"true"`
	Type       string            `json:"message_type,omitempty" desc:"only messages of this type" check:"min=1"`
	Priority   string            `json:"priority,omitempty" desc:"only messages of this priority" check:"oneof=low|normal|high|urgent"`
	Limit      int               `json:"limit,omitempty" desc:"maximum number of messages" check:"min=1,max=100" default:"50"`
	Lease      parameter.Seconds `json:"lease_seconds,omitempty" desc:"seconds until messages without an ACK become unread again" check:"min=1,max=86400"`
	Wait       parameter.Seconds `json:"wait_seconds,omitempty" desc:"how long to wait for a message" check:"min=0,max=3600"`
}

// GetMessagesResult holds the messages: interrupts first, then by priority, then oldest first.
type GetMessagesResult struct {
	HasInterrupts bool      `json:"hasInterrupts"`
	Count         int       `json:"count"`
	HasMore       bool      `json:"hasMore"` // more messages are unread: call again
	Messages      []Message `json:"messages"`
	Rest          string    `json:"rest,omitempty"`       // for a model: how to get the rest
	LeaseUntil    string    `json:"leaseUntil,omitempty"` // when messages without an ACK become unread again
	commands.Waited
	commands.Taken
}

var getMessagesCommand = commands.Define(vocabulary, "get_messages", getMessages).
	With(commands.Traits{Kind: tracing.Consumer})

// getMessages delivers what is due to the reader, and returns unread messages. With markAsRead and without a lease,
// the messages are read once the answer is written.
func getMessages(ctx context.Context, env commands.Env, p GetMessagesParams) (GetMessagesResult, error) {
	reader, err := readerOf(ctx, env, p.SessionID)
	if err != nil {
		return GetMessagesResult{}, err
	}
	o := reading.Options{
		Recipient: reader, Timeout: env.Wait(p.Wait.Duration()), Limit: p.Limit,
		Filter: reading.Filter{Type: p.Type, Target: p.Target}, Peek: !p.MarkAsRead,
		Lease: commands.Lease(env.Caller, "get_messages", p.Lease), Fits: env.Fits(unreadOf),
	}
	o.Filter.MinPriority, o.Filter.MaxPriority = priorityBounds(p.Priority)
	ms, more, err := reading.Wait(ctx, env.Ledger, o)
	if err != nil {
		return GetMessagesResult{}, err
	}
	shown, taken := commands.Hand(ctx, env, ms, o.Lease, unreadOf)
	r := unreadOf(shown).(GetMessagesResult)
	r.HasMore, r.Taken = more || len(shown) < len(ms), taken
	r.Rest = env.Rest(r.HasMore, "call get_messages again")
	if len(ms) == 0 {
		r.Waited = env.WaitedFor(p.Wait.Duration())
	}
	return r, nil
}

// unreadOf returns the answer with these messages.
func unreadOf(ms []orchestrator.Message) any {
	r := GetMessagesResult{Count: len(ms), Messages: make([]Message, len(ms)), LeaseUntil: commands.LeaseEnd(ms)}
	for i := range ms {
		r.Messages[i] = render(&ms[i])
		r.HasInterrupts = r.HasInterrupts || r.Messages[i].Action == "interrupt"
	}
	return r
}

// readerOf returns the agent that a sessionId means: the agent with that name, or the caller, if it takes part in
// that session.
func readerOf(ctx context.Context, env commands.Env, sessionID string) (string, error) {
	if sessionID == "" || sessionID == env.Caller.Name {
		return commands.ReadAs(ctx, env, sessionID)
	}
	agent, err := agents.Get(ctx, env.Ledger, sessionID)
	if err == nil {
		return commands.ActAs(env.Caller, agent.Name)
	}
	var unknown *orchestrator.Error
	if !errors.As(err, &unknown) || unknown.Code != orchestrator.NotFound {
		return "", err
	}
	present, perr := agents.Presences(ctx, env.Ledger, sessionID)
	if perr != nil {
		return "", perr
	}
	for _, p := range present {
		if p.Agent == env.Caller.Name || (env.Caller.Name == "" && len(present) == 1) {
			return p.Agent, nil
		}
	}
	return "", orchestrator.Errorf(orchestrator.UnknownRecipient,
		"sessionId: %q is neither a known program nor a session that you take part in", sessionID).
		WithHint("To get your own messages, omit sessionId. %s", unknown.Hint)
}

// priorityBounds returns the lowest and the highest number for a priority word. nil means no bound; "" has no bounds.
func priorityBounds(word string) (low, high *int) {
	if word == "" {
		return nil, nil
	}
	n := orchestrator.PriorityOf(word)
	if word != orchestrator.Priorities[0] {
		low = &n
	}
	if word != orchestrator.Priorities[len(orchestrator.Priorities)-1] {
		high = &n
	}
	return low, high
}

// Text writes each message.
func (r GetMessagesResult) Text(w *terminal.Text) {
	if r.Count == 0 {
		w.Printf("No unread messages.\n")
	}
	for i := range r.Messages {
		r.Messages[i].write(w)
	}
	commands.TellRest(w, r.LeaseUntil, r.HasMore)
}
