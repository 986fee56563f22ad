package relay

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"

	"mailroom/commands"
	"mailroom/commands/parameter"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/pattern"
	"mailroom/tracing"
)

// SendMessageParams describes a message to a program, or to every member of a group. Source: document 000,
// "send_message".
type SendMessageParams struct {
	Message        string            `json:"message" desc:"at most 64 KiB" check:"min=1,max=65536"`
	Source         string            `json:"source,omitempty" desc:"program that sends; may be left out if the caller's credential names it" check:"agent"`
	Target         string            `json:"target" desc:"program, group (list_groups), or role:ROLE" check:"agent|group|role"`
	Type           string            `json:"message_type" desc:"QUERY asks for a RESULT; ACK acknowledges" check:"oneof=PING|PONG|HANDSHAKE|DIRECTIVE|STATUS|ACK|QUERY|RESULT"`
	Priority       string            `json:"priority,omitempty" desc:"default: normal" check:"oneof=low|normal|high|urgent"`
	Action         string            `json:"action,omitempty" desc:"interrupt: read first; default: queue" check:"oneof=interrupt|queue"`
	Context        string            `json:"context,omitempty" desc:"background" check:"max=8192"`
	SessionID      string            `json:"sessionId,omitempty" desc:"default: the caller's session" check:"max=256"`
	ReplyTo        string            `json:"reply_to,omitempty" desc:"message to answer or acknowledge" check:"max=256"`
	ThreadID       string            `json:"threadId,omitempty" desc:"thread of the message" check:"max=256"`
	TTL            parameter.Seconds `json:"ttl,omitempty" desc:"seconds until the message expires unread" check:"min=1,max=2592000"`
	Payload        json.RawMessage   `json:"payload,omitempty" desc:"structured data" check:"object,max=1000000"`
	IdempotencyKey string            `json:"idempotency_key,omitempty" desc:"UUID v4; a repeated send with this key sends nothing" check:"max=36"`
	AckWithin      parameter.Seconds `json:"ack_within,omitempty" desc:"seconds until you are notified if nobody acknowledges or answers the message" check:"min=1,max=2592000"`
	Wake           orchestrator.Wake `json:"wake,omitempty" desc:"rest or never: do not wake an idle session of the target; default: by type" check:"oneof=now|rest|never"`
	HoldUnknown    bool              `json:"hold_unknown,omitempty" desc:"keep the message until an unknown target is added"`
}

// SendMessageResult names the message or, for a group, the multicast id and one target per member.
type SendMessageResult struct {
	MessageID   string   `json:"messageId,omitempty"`
	MulticastID string   `json:"multicastId,omitempty"`
	Recipients  *int     `json:"recipients,omitempty"` // number of recipients
	Targets     []Target `json:"targets,omitempty"`
	Status      string   `json:"status"`
	Idempotent  bool     `json:"idempotent,omitempty"`
	Note        string   `json:"note,omitempty"` // what delays its delivery
	commands.Replied

	Presence commands.Presence `json:"recipient_presence,omitempty"`
}

// Target is one member of a group to which the message was sent.
type Target struct {
	Target    string `json:"target"`
	MessageID string `json:"messageId"`
}

var sendMessageCommand = commands.Define(vocabulary, "send_message", sendMessage).
	With(commands.Traits{Kind: tracing.Producer})

// sendMessage sends a message. The message is durable when sendMessage returns.
func sendMessage(ctx context.Context, env commands.Env, p SendMessageParams) (SendMessageResult, error) {
	draft, err := p.draft(env.Caller)
	if err != nil {
		return SendMessageResult{}, err
	}
	sent, err := messages.Send(ctx, env.Ledger, draft)
	if err != nil {
		return SendMessageResult{}, err
	}
	r := SendMessageResult{Status: string(sent.Status), Idempotent: sent.Idempotent, Note: commands.NoteOf(&sent),
		Replied: commands.RepliedOf(&sent)}
	r.Presence = commands.PresenceOf(ctx, env, &draft, sent.Recipients...)
	if sent.MulticastID == "" {
		r.MessageID = sent.MessageID
		return r, nil
	}
	r.MulticastID, r.Recipients = sent.MulticastID, new(len(sent.Recipients))
	for i, name := range sent.Recipients {
		r.Targets = append(r.Targets, Target{Target: name, MessageID: sent.MessageIDs[i]})
	}
	return r, nil
}

func (p *SendMessageParams) draft(caller commands.Caller) (orchestrator.Draft, error) {
	source, err := commands.ActAs(caller, p.Source)
	if err != nil {
		return orchestrator.Draft{}, err
	}
	if p.IdempotencyKey != "" && !uuid4().MatchString(p.IdempotencyKey) {
		return orchestrator.Draft{},
			orchestrator.Errorf(orchestrator.InvalidParams, "idempotency_key must be a UUID v4, but is %q", p.IdempotencyKey).
				WithHint("Use a UUID such as f47ac10b-58cc-4372-a567-0e02b2c3d479. If you send the message again, use the key of the first attempt")
	}
	body := struct {
		Message string          `json:"message"`
		Payload json.RawMessage `json:"payload,omitempty"`
	}{p.Message, p.Payload}
	payload, err := orchestrator.JSON(body)
	if err == nil {
		err = commands.CheckFits("payload", payload) // a message without a payload always fits
	}
	if err != nil {
		return orchestrator.Draft{}, err
	}
	d := orchestrator.Draft{
		Sender: source, Recipient: p.Target, Type: p.Type, Payload: payload,
		Priority: orchestrator.PriorityOf(p.Priority),
		Action:   p.Action, Context: p.Context, SessionID: cmp.Or(p.SessionID, caller.Session),
		SessionNamed: p.SessionID != "", ReplyTo: p.ReplyTo, ThreadID: p.ThreadID,
		TTL: p.TTL.Duration(), IdempotencyKey: strings.ToLower(p.IdempotencyKey), AckWithin: p.AckWithin.Duration(),
		HoldUnknown:  p.HoldUnknown,
		Wake:         p.Wake,
		Acknowledges: p.Type == "ACK",
	}
	if p.Type == "RESULT" {
		d.Verdict = commands.VerdictIn(payload)
	}
	return d, nil
}

// uuid4 matches a UUID of version 4 in its usual form. Source: RFC 9562, section 5.4.
var uuid4 = pattern.New(`(?i)^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

// Text writes the result for people.
func (r SendMessageResult) Text(w *terminal.Text) {
	switch {
	case r.Idempotent:
		w.Printf("A message with this idempotency key was sent before, so nothing was sent now.\n")
	case r.MulticastID != "":
		w.Printf("%s is stored on disk for %d programs.\n", w.Paint(terminal.Bold, r.MulticastID), *r.Recipients)
	default:
		w.Printf("%s is stored on disk.\n", w.Paint(terminal.Bold, r.MessageID))
	}
	r.Replied.Text(w)
	if r.Note != "" {
		w.Printf("The message %s.\n", r.Note)
	}
	r.Presence.Text(w)
}
