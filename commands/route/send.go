package route

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"mailroom/commands"
	"mailroom/commands/parameter"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/hosts"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/tracing"
)

// SendParams describes a message to one agent, or to every member of a group. Source: document 004, "Operation 3:
// Send Message".
type SendParams struct {
	Sender         string            `json:"sender,omitempty" desc:"agent that sends; may be left out if --as or MAILROOM_AGENT names it" check:"agent"`
	Recipient      string            `json:"recipient" desc:"agent, group, or role:ROLE" check:"agent|group|role" arg:"1"`
	Type           string            `json:"message_type" desc:"any word, such as task_assignment or error_report" check:"min=1,max=64" also:"type" with:"payload=message"`
	Payload        json.RawMessage   `json:"payload,omitempty" desc:"any JSON value of at most 1 MiB; default: null" arg:"rest"`
	MaxRetries     *int              `json:"max_retries,omitempty" desc:"retries before the message fails; default: the setting retry.max_retries" check:"min=0,max=100"`
	Priority       int               `json:"priority,omitempty" desc:"a higher number goes first" check:"min=-9,max=9"`
	TTL            parameter.Seconds `json:"ttl_seconds,omitempty" desc:"time until the message expires undelivered or unread" check:"min=1,max=2592000" also:"ttl"`
	IdempotencyKey string            `json:"idempotency_key,omitempty" desc:"a repeated send with this key sends nothing and returns the first result" check:"max=256"`
	ReplyTo        string            `json:"reply_to,omitempty" desc:"message_id of the message to answer" check:"max=256"`
	AckWithin      parameter.Seconds `json:"ack_within,omitempty" desc:"notify the sender once if nobody acknowledges or answers the message within this time" check:"min=1,max=2592000"`
	NotBefore      string            `json:"not_before,omitempty" desc:"earliest delivery: an RFC 3339 time, or a time from now such as 2h; at most 30 days ahead" check:"max=64"`
	Wake           orchestrator.Wake `json:"wake,omitempty" desc:"rest: wake no idle session; never: extend no turn either; default: type and priority decide, unless the recipient has rules" check:"oneof=now|rest|never"`
	HoldUnknown    bool              `json:"hold_unknown,omitempty" desc:"keep a message to an unknown name until that agent is added"`
}

// SendResult is the answer defined by document 004, with further keys for a send to a group.
type SendResult struct {
	MessageID   string   `json:"message_id"`
	Sender      string   `json:"sender"`
	Recipient   string   `json:"recipient"`
	Type        string   `json:"message_type"`
	Status      string   `json:"status"`
	CreatedAt   string   `json:"created_at"`
	NotBefore   string   `json:"not_before,omitempty"`
	MulticastID string   `json:"multicast_id,omitempty"`
	MessageIDs  []string `json:"message_ids,omitempty"`
	Recipients  []string `json:"recipients,omitempty"`
	Held        bool     `json:"held,omitempty"`
	Idempotent  bool     `json:"idempotent,omitempty"`
	Note        string   `json:"note,omitempty"` // what delays its delivery
	commands.Replied

	// Presence is the state of each recipient's agent-host sessions: working, idle, no hooks, not running.
	Presence commands.Presence `json:"recipient_presence,omitempty"`

	// For people only.
	withheld int // how many messages are withheld until the database is trusted
	noDaemon bool
	noHost   string // the only host that delivers the message, if no daemon runs there
	disabled bool   // the recipient's transport is disabled
	looks    bool   // the recipient finds the message in its inbox, whoever delivers it
}

var sendCommand = commands.WithBatch(commands.Define(vocabulary, "send", send).
	With(commands.Traits{Kind: tracing.Producer, Document: true}),
	(*SendParams).draft, sendBatch)

// send sends a message. The message is durable when send returns: a kill or power loss afterwards loses nothing.
func send(ctx context.Context, env commands.Env, p SendParams) (SendResult, error) {
	draft, err := p.draft(env.Caller)
	if err != nil {
		return SendResult{}, err
	}
	var presence map[string]string
	sent, err := messages.SendAnd(ctx, env.Ledger, draft, func(t *ledger.Tx, sent *orchestrator.Sent) error {
		presence, _ = hosts.PresenceIn(t, &draft, sent.Recipients...) // an error here does not affect the message
		return nil
	})
	if err != nil {
		return SendResult{}, err
	}
	r := sendResult(&draft, &sent)
	r.Presence = presence
	r.noDaemon = commands.NoDaemon(ctx, env)
	if env.Call.Narrator == nil {
		return r, nil
	}
	if conf, err := env.Ledger.Configuration(ctx); err == nil && conf.Agents[r.Recipient] != nil {
		agent := conf.Agents[r.Recipient]
		r.disabled, r.looks, r.noHost = agent.KeptBack(), env.Ledger.SetTransport(agent) != nil,
			commands.HostWithout(ctx, env, agent)
	}
	return r, nil
}

// Text writes the result, and what will deliver the message.
func (r SendResult) Text(w *terminal.Text) {
	w.Printf("%s to %s is %s and stored on disk.\n", w.Paint(terminal.Bold, r.MessageID), r.Recipient, w.Is(r.Status))
	r.Replied.Text(w)
	switch {
	case r.Idempotent:
		w.Printf("A message with this idempotency key was sent before, so nothing was sent now.\n")
	case r.Note == orchestrator.WaitsForDevice:
		w.Printf("The message %s. To add a phone, run `mailroom signal pair`; until then, Mailroom keeps the message.\n", r.Note)
	case r.Note != "" && r.withheld == 0:
		w.Printf("The message %s.\n", r.Note)
	case r.Held:
		w.Printf("Mailroom keeps the message until an agent named %s is added.\n", r.Recipient)
	case r.NotBefore != "":
		w.Printf("The message is delivered no earlier than %s.\n", r.NotBefore)
	}
	if r.Held || r.Idempotent {
		return
	}
	r.Presence.Text(w)
	whose, rest := "the", len(r.Recipients)-r.withheld
	if r.withheld > 0 {
		whose = "the other"
		w.Printf("%s\n", w.Paint(terminal.Yellow, "The message "+r.Note+". "+ledger.NotTrustedHint+"."))
	}
	switch {
	case r.disabled:
		name := orchestrator.ShellWord(r.Recipient)
		w.Printf("%s\n",
			w.Paint(terminal.Yellow,
				fmt.Sprintf("The transport of %s is disabled, so the message waits. To enable the transport, run `mailroom agent enable %s`.", r.Recipient,
					name)))
	case r.noHost != "":
		w.Printf("%s\n",
			w.Paint(terminal.Yellow,
				fmt.Sprintf("No daemon is running on %s, the only host that delivers to %s. To deliver the message, run `mailroom serve` on that host.", r.noHost, r.Recipient)))
	case !r.noDaemon:
	case rest > 0:
		w.Printf("%s\n", w.Paint(terminal.Yellow,
			fmt.Sprintf("No daemon is running. To deliver %s %d messages, run `mailroom deliver_all`; each is also delivered when its recipient checks for messages.", whose, rest)))
	case r.withheld > 0 || r.Note == orchestrator.WaitsForDevice:
	case !r.looks:
		commands.TellNoDaemon(w, "the message is")
	default:
		w.Printf("%s\n",
			w.Paint(terminal.Yellow, "No daemon is running. To deliver the message, run `mailroom deliver_all`; it is also delivered when "+r.Recipient+
				" or a hook of its session checks for messages."))
	}
}

// sendBatch sends many messages in one transaction.
func sendBatch(ctx context.Context, env commands.Env, drafts []orchestrator.Draft, atomic bool) ([]SendResult,
	[]error) {
	results, errs := make([]SendResult, len(drafts)), make([]error, len(drafts))
	for i, out := range messages.SendBatch(ctx, env.Ledger, drafts, atomic) {
		results[i], errs[i] = sendResult(&drafts[i], &out.Sent), out.Refused
	}
	return results, errs
}

func (p *SendParams) draft(caller commands.Caller) (orchestrator.Draft, error) {
	sender, err := commands.ActAs(caller, p.Sender)
	if err != nil {
		return orchestrator.Draft{}, err
	}
	notBefore, delay, err := laterTime("not_before", p.NotBefore)
	if err != nil {
		return orchestrator.Draft{}, err
	}
	d := orchestrator.Draft{
		NotBefore: notBefore, Delay: delay,
		Sender: sender, Recipient: p.Recipient, Type: p.Type, Payload: p.Payload, MaxRetries: p.MaxRetries,
		Priority: p.Priority,
		TTL:      p.TTL.Duration(), IdempotencyKey: p.IdempotencyKey, ReplyTo: p.ReplyTo, HoldUnknown: p.HoldUnknown,
		AckWithin: p.AckWithin.Duration(), Wake: p.Wake,
		SessionID: caller.Session,
	}
	if !agents.AsksUser(p.Type) { // a message that asks the user something is not a decision
		d.Verdict = commands.VerdictIn(p.Payload)
	}
	return d, nil
}

// laterTime parses a time, or a duration from now.
func laterTime(parameter, text string) (at time.Time, delay time.Duration, err error) {
	if text == "" {
		return at, 0, nil
	}
	if delay, err = orchestrator.ParseDuration(text); err == nil {
		return at, delay, nil
	}
	if at, err = time.Parse(time.RFC3339, text); err == nil {
		return at, 0, nil
	}
	return at, 0, orchestrator.InvalidParam(parameter, "%q is not a valid time", orchestrator.Clip(text)).
		WithHint("Give a time with its zone, such as 2026-01-02T15:04:05Z or 2026-01-02T15:04:05+01:00, or a time from now, such as 90s, 30m, 2h, or 7d")
}

func sendResult(d *orchestrator.Draft, sent *orchestrator.Sent) SendResult {
	r := SendResult{
		MessageID: sent.MessageID, Sender: d.Sender, Recipient: d.Recipient, Type: cmp.Or(sent.Type, d.Type),
		Status:    string(sent.Status),
		CreatedAt: sent.CreatedAt, NotBefore: sent.NotBefore, Held: sent.Held, Idempotent: sent.Idempotent,
		Note:     cmp.Or(commands.NoteWithheld(sent.Withheld, len(sent.Recipients)), sent.Note),
		Replied:  commands.RepliedOf(sent),
		withheld: len(sent.Withheld),
	}
	if sent.MulticastID != "" {
		r.MulticastID, r.MessageIDs, r.Recipients = sent.MulticastID, sent.MessageIDs, sent.Recipients
	}
	return r
}
