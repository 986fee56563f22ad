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

// SendParams asks for one message to one agent, or to every member of a group.
// Source: document 004, "Operation 3: Send Message".
type SendParams struct {
	Sender         string            `json:"sender,omitempty" desc:"agent that sends; may be left out when --as or MAILROOM_AGENT names it" check:"agent"`
	Recipient      string            `json:"recipient" desc:"agent, group or role:ROLE" check:"agent|group|role" arg:"1"`
	Type           string            `json:"message_type" desc:"task_assignment, error_report, ...: any word" check:"min=1,max=64" also:"type" with:"payload=message"`
	Payload        json.RawMessage   `json:"payload,omitempty" desc:"any JSON value, at most 1 MiB; left out it is null" arg:"rest"`
	MaxRetries     *int              `json:"max_retries,omitempty" desc:"retries before it fails; left out: the setting retry.max_retries" check:"min=0,max=100"`
	Priority       int               `json:"priority,omitempty" desc:"higher goes first" check:"min=-9,max=9"`
	TTL            parameter.Seconds `json:"ttl_seconds,omitempty" desc:"expires undelivered or unread after this long" check:"min=1,max=2592000" also:"ttl"`
	IdempotencyKey string            `json:"idempotency_key,omitempty" desc:"a repeat of the same send with this key sends nothing and answers with the first result" check:"max=256"`
	ReplyTo        string            `json:"reply_to,omitempty" desc:"message_id that this one answers" check:"max=256"`
	AckWithin      parameter.Seconds `json:"ack_within,omitempty" desc:"tell the sender, once, when nobody has acknowledged or answered it after this long" check:"min=1,max=2592000"`
	NotBefore      string            `json:"not_before,omitempty" desc:"deliver no earlier: an RFC 3339 time, or a time from now such as 2h; at most 30 days ahead" check:"max=64"`
	Wake           orchestrator.Wake `json:"wake,omitempty" desc:"rest and never wake no idle session, never keeps no turn going; left out: type and priority decide; the recipient's rules win" check:"oneof=now|rest|never"`
	HoldUnknown    bool              `json:"hold_unknown,omitempty" desc:"keep a message to a name that nobody has yet, until that agent is added"`
}

// SendResult is document 004's answer, and what a send to a group adds to it.
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
	Note        string   `json:"note,omitempty"` // what keeps it from being delivered soon
	commands.Replied

	// Presence is what is known of each recipient by the sessions of its agent host: working, idle, no hooks, not
	// running.
	Presence commands.Presence `json:"recipient_presence,omitempty"`

	// For people only.
	withheld int // how many messages stay here until the database is trusted
	noDaemon bool
	noHost   string // the host that delivers it, where no daemon runs
	disabled bool   // the recipient's transport is
	looks    bool   // the recipient finds it in its inbox, whoever delivers
}

var sendCommand = commands.WithBatch(commands.Define(vocabulary, "send", send).
	With(commands.Traits{Kind: tracing.Producer, Document: true}),
	(*SendParams).draft, sendBatch)

// send is durable when it returns: a kill or power loss afterwards loses nothing.
func send(ctx context.Context, env commands.Env, p SendParams) (SendResult, error) {
	draft, err := p.draft(env.Caller)
	if err != nil {
		return SendResult{}, err
	}
	var presence map[string]string
	sent, err := messages.SendAnd(ctx, env.Ledger, draft, func(t *ledger.Tx, sent *orchestrator.Sent) error {
		presence, _ = hosts.PresenceIn(t, &draft, sent.Recipients...) // the message is sent, whatever comes of this
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

// Text says it in a sentence, and who will deliver.
func (r SendResult) Text(w *terminal.Text) {
	w.Printf("%s to %s is %s, and on disk.\n", w.Paint(terminal.Bold, r.MessageID), r.Recipient, w.Status(r.Status))
	r.Replied.Text(w)
	switch {
	case r.Idempotent:
		w.Printf("It had been sent before under this idempotency key; nothing was sent now.\n")
	case r.Note == orchestrator.WaitsForDevice:
		w.Printf("It %s. `mailroom signal pair` adds a phone; until then it is kept.\n", r.Note)
	case r.Note != "" && r.withheld == 0:
		w.Printf("It %s.\n", r.Note)
	case r.Held:
		w.Printf("It is held until somebody has the name %s.\n", r.Recipient)
	case r.NotBefore != "":
		w.Printf("It is delivered no earlier than %s.\n", r.NotBefore)
	}
	if r.Held || r.Idempotent {
		return
	}
	r.Presence.Text(w)
	whose, rest := "its", len(r.Recipients)-r.withheld
	if r.withheld > 0 {
		whose = "the other"
		w.Printf("%s\n", w.Paint(terminal.Yellow, "It "+r.Note+". "+ledger.NotTrustedHint+"."))
	}
	switch {
	case r.disabled:
		name := orchestrator.ShellWord(r.Recipient)
		w.Printf("%s\n",
			w.Paint(terminal.Yellow,
				fmt.Sprintf("The transport of %s is disabled: it waits until `mailroom agent enable %s`.", r.Recipient,
					name)))
	case r.noHost != "":
		w.Printf("%s\n",
			w.Paint(terminal.Yellow,
				fmt.Sprintf("No daemon runs on %s, which alone delivers to %s: it waits until `mailroom serve` runs there.", r.noHost, r.Recipient)))
	case !r.noDaemon:
	case rest > 0:
		w.Printf("%s\n", w.Paint(terminal.Yellow,
			fmt.Sprintf("No daemon runs: %s %d messages are delivered by `mailroom deliver_all`, or when the members look for them.", whose, rest)))
	case r.withheld > 0 || r.Note == orchestrator.WaitsForDevice:
	case !r.looks:
		commands.TellNoDaemon(w, "it is")
	default:
		w.Printf("%s\n",
			w.Paint(terminal.Yellow, "No daemon runs: it is delivered by `mailroom deliver_all`, or when "+r.Recipient+
				" or a hook of its session looks for messages."))
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
	if !agents.AsksUser(p.Type) { // what asks back decides nothing
		d.Verdict = commands.VerdictIn(p.Payload)
	}
	return d, nil
}

// laterTime reads a time, or how long from now that is.
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
	return at, 0, orchestrator.InvalidParam(parameter, "%q is no time", orchestrator.Clip(text)).
		WithHint("Give one with its zone, as in 2026-01-02T15:04:05Z or 2026-01-02T15:04:05+01:00, or how long from now: 90s, 30m, 2h, 7d")
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
