package team

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/pattern"
	"mailroom/orchestrator/teams"
	"mailroom/tracing"
)

// SendMessageParams describes a message to one teammate, or to all teammates. Source: document 001, "Schema".
type SendMessageParams struct {
	To      string          `json:"to" desc:"name of a teammate, * for every other teammate, or role:ROLE for the teammates with that role" check:"min=1,max=261"`
	Message json.RawMessage `json:"message" desc:"a text, or a protocol object: shutdown_request, shutdown_response, plan_approval_request, plan_approval_response" check:"text|object"`
	Summary string          `json:"summary,omitempty" desc:"preview in 5 to 10 words; default: the first ten words of the message" check:"max=200"`
	ReplyTo string          `json:"reply_to,omitempty" desc:"message that this one answers" check:"id"`

	HoldUnknown bool `json:"hold_unknown,omitempty" desc:"keep the message until the teammate is added, if the teammate does not exist yet"`
}

// SendMessageResult describes the message that was sent, and carries the caller's unread messages.
type SendMessageResult struct {
	MessageID   string   `json:"message_id"`
	From        string   `json:"from"`
	To          string   `json:"to"`
	Type        string   `json:"message_type"`
	Summary     string   `json:"summary"`
	Status      string   `json:"status"`
	CreatedAt   string   `json:"created_at"`
	MulticastID string   `json:"multicast_id,omitempty"`
	MessageIDs  []string `json:"message_ids,omitempty"`
	Recipients  []string `json:"recipients,omitempty"`
	RequestID   string   `json:"request_id,omitempty"` // of the request that the message makes or answers
	Stopped     []string `json:"stopped,omitempty"`    // teammates that have stopped
	Note        string   `json:"note,omitempty"`       // what delays its delivery
	Presence    string   `json:"presence"`             // of the sender, after the send

	// of an answer: the thread of the answered message, to which the answer was added
	JoinedThread  string `json:"joined_thread,omitempty"`
	OutsideThread string `json:"outside_thread,omitempty"` // of an answer: why it was not added to the thread

	Recipient commands.Presence `json:"recipient_presence,omitempty"`
	Arrivals
}

var sendMessageCommand = commands.Define(vocabulary, "SendMessage", sendMessage).
	With(commands.Traits{Kind: tracing.Producer})

// sendMessage sends a message. The message and the effects of a protocol message are durable when sendMessage
// returns.
func sendMessage(ctx context.Context, env commands.Env, p SendMessageParams) (SendMessageResult, error) {
	sender, err := member(env)
	if err != nil {
		return SendMessageResult{}, err
	}
	if err := refuseUUID(ctx, env, p.To); err != nil {
		return SendMessageResult{}, err
	}
	c, err := readContent(p.Message)
	if err == nil {
		err = commands.CheckFits("message", c.payload)
	}
	if err != nil {
		return SendMessageResult{}, err
	}
	if p.HoldUnknown && (p.To == teams.Teammates || c.request != nil || c.answer != nil) {
		return SendMessageResult{},
			orchestrator.Errorf(orchestrator.InvalidParams,
				"hold_unknown: only a plain message to one teammate can wait for an unknown recipient").
				WithHint("Leave hold_unknown out")
	}
	draft := orchestrator.Draft{
		ReplyTo: p.ReplyTo, HoldUnknown: p.HoldUnknown,
		Sender: sender, Recipient: p.To, Type: c.kind, Payload: c.payload, SessionID: env.Caller.Session,
		Summary: cmp.Or(strings.Join(strings.Fields(p.Summary), " "), commands.Preview(c.preview)),
	}
	sent, err := send(ctx, env, &c, draft)
	if err != nil {
		return SendMessageResult{}, err
	}
	r := SendMessageResult{
		MessageID: sent.MessageID, From: sender, To: p.To, Type: cmp.Or(sent.Type, c.kind), Summary: draft.Summary,
		Status:    string(sent.Status),
		CreatedAt: sent.CreatedAt, RequestID: sent.RequestID, Note: commands.NoteOf(&sent.Sent), Stopped: sent.Stopped,
		Presence:     string(sent.Presence),
		JoinedThread: sent.Joined, OutsideThread: sent.Outside,
		Recipient: commands.PresenceOf(ctx, env, &draft, sent.Recipients...), Arrivals: arrivalsAfter(ctx, env, sender),
	}
	if sent.MulticastID != "" {
		r.MulticastID, r.MessageIDs, r.Recipients = sent.MulticastID, sent.MessageIDs, sent.Recipients
	}
	return r, nil
}

// send passes a message to the engine as a request, an answer, or a plain message.
func send(ctx context.Context, env commands.Env, c *content, draft orchestrator.Draft) (teams.Sent, error) {
	switch {
	case c.request != nil:
		c.request.Draft = draft
		return teams.Ask(ctx, env.Ledger, *c.request)
	case c.answer != nil:
		c.answer.Draft = draft
		return teams.Answer(ctx, env.Ledger, *c.answer)
	}
	draft.Verdict = commands.VerdictIfClear(draft.Payload)
	return teams.Send(ctx, env.Ledger, draft)
}

// uuid matches text that looks like a UUID, with or without dashes.
var uuid = pattern.New(`(?i)^(urn:uuid:)?\{?[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}\}?$`)

// refuseUUID returns an error for an address that looks like a UUID. The error lists the names of teammates.
func refuseUUID(ctx context.Context, env commands.Env, to string) error {
	if !uuid().MatchString(to) {
		return nil
	}
	e := orchestrator.InvalidParam("to", "%q looks like a UUID, but must be the name of a teammate", to)
	members, err := teams.Get(ctx, env.Ledger, env.Caller.Session)
	if err != nil {
		return err
	}
	var names []string
	for _, m := range members {
		if m.Name != env.Caller.Name && !m.BuiltIn {
			names = append(names, m.Name)
		}
	}
	if len(names) == 0 {
		return e.WithHint("There are no teammates yet. To add one, run `mailroom agent add NAME`")
	}
	shown := names[:min(len(names), 20)]
	e.Details["teammates"] = shown
	return e.WithHint("Use a teammate's name: %s", strings.Join(shown, ", "))
}

// Text writes the result, and the caller's unread messages.
func (r SendMessageResult) Text(w *terminal.Text) {
	to := r.To
	if r.MulticastID != "" {
		to = strings.Join(r.Recipients, ", ")
	}
	w.Printf("%s to %s is %s: %s\n", w.Paint(terminal.Bold, r.MessageID), to, w.Is(r.Status), r.Summary)
	if r.Note != "" {
		w.Printf("The message %s.\n", r.Note)
	}
	switch {
	case r.RequestID != "" && (r.Type == orchestrator.ShutdownRequest || r.Type == orchestrator.PlanApprovalRequest):
		w.Printf("%s must answer with the request ID %s.\n", r.To, r.RequestID)
	case r.Presence == string(orchestrator.Stopped):
		w.Printf("%s\n", w.Paint(terminal.Yellow, r.From+" has stopped. End your process."))
	}
	if len(r.Stopped) > 0 && r.MulticastID != "" {
		w.Printf("Not sent to stopped teammates: %s.\n", strings.Join(r.Stopped, ", "))
	} else if len(r.Stopped) > 0 {
		w.Printf("%s has stopped. The message waits until the agent is working again.\n", r.To)
	}
	commands.Replied{JoinedThread: r.JoinedThread, OutsideThread: r.OutsideThread}.Text(w)
	r.Recipient.Text(w)
	r.Arrivals.text(w)
}
