package route

import (
	"cmp"
	"context"
	"encoding/json"

	"mailroom/commands"
	"mailroom/commands/parameter"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
)

// RouteParams holds all keys of document 004's command. Any key may be given with any action; an action ignores the
// keys that it does not use. The keys are offered in the document's spelling, but any case is accepted. Source:
// document 004, "Parameters" and "Message Operations".
type RouteParams struct {
	Action         string            `json:"ACTION" desc:"action to run" check:"oneof=poll|deliver|deliver_all|send|clear|clear_old"`
	Recipient      string            `json:"RECIPIENT,omitempty" desc:"agent, group, or role:ROLE to send to" check:"agent|group|role"`
	BatchSize      int               `json:"BATCH_SIZE,omitempty" desc:"poll: maximum number of messages (10); deliver_all: messages per claim" check:"min=1,max=1000"`
	Timeout        parameter.Seconds `json:"DELIVERY_TIMEOUT_SECONDS,omitempty" desc:"deliver_all: time limit of one attempt" check:"min=1,max=3600"`
	InstanceID     string            `json:"ORCHESTRATOR_INSTANCE_ID,omitempty" desc:"recorded as lease owner and trace actor of this run" check:"min=1,max=128"`
	Sender         string            `json:"SENDER,omitempty" desc:"send: agent that sends" check:"agent"`
	Type           string            `json:"MESSAGE_TYPE,omitempty" desc:"send: any word" check:"min=1,max=64"`
	Payload        json.RawMessage   `json:"PAYLOAD,omitempty" desc:"send: any JSON value, at most 1 MiB"`
	MaxRetries     *int              `json:"MAX_RETRIES,omitempty" desc:"send: retries before the message fails" check:"min=0,max=100"`
	Priority       int               `json:"PRIORITY,omitempty" desc:"send: a higher number goes first" check:"min=-9,max=9"`
	TTL            parameter.Seconds `json:"TTL_SECONDS,omitempty" desc:"send: time until the message expires undelivered or unread" check:"min=1,max=2592000"`
	IdempotencyKey string            `json:"IDEMPOTENCY_KEY,omitempty" desc:"send: a repeated send with this key sends nothing" check:"max=256"`
	ReplyTo        string            `json:"REPLY_TO,omitempty" desc:"send: message_id of the message to answer" check:"max=256"`
	NotBefore      string            `json:"NOT_BEFORE,omitempty" desc:"send: earliest delivery: an RFC 3339 time, or a time from now such as 2h" check:"max=64"`
	OlderThanDays  *int              `json:"OLDER_THAN_DAYS,omitempty" desc:"clear_old: age in days of finished messages" check:"min=0,max=3650"`
}

// RouteResult is the answer of the action that ran.
type RouteResult struct {
	action string
	answer any
}

// ActionName returns the action that ran, in the spelling of the document.
func (r RouteResult) ActionName() string { return r.action }

// MarshalJSON writes the action's own answer.
func (r RouteResult) MarshalJSON() ([]byte, error) {
	return orchestrator.JSON(commands.WithLists(r.answer))
}

// Text writes the action's own answer for people.
func (r RouteResult) Text(w *terminal.Text) { r.answer.(commands.Texter).Text(w) }

var routeCommand = commands.Define(vocabulary, "route-inter-agent-messages", routeMessages).
	With(commands.Traits{Document: true})

// routeMessages is the single command of document 004 with its four actions. It calls the command of each action. An
// agent that is not an administrator can only poll and send, in its own name.
func routeMessages(ctx context.Context, env commands.Env, p RouteParams) (RouteResult, error) {
	if err := p.allowed(env.Caller); err != nil {
		return RouteResult{}, err
	}
	if env.Caller.Admin {
		ctx = ledger.WithInstance(ctx, p.InstanceID)
	}
	switch p.Action {
	case "poll":
		if p.Recipient = cmp.Or(p.Recipient, env.Caller.Name); p.Recipient == "" {
			return RouteResult{}, missing("RECIPIENT", "poll")
		}
		answer, err := poll(ctx, env, PollParams{Recipient: p.Recipient, BatchSize: cmp.Or(p.BatchSize, 10)})
		return RouteResult{"poll", answer}, err
	case "deliver", "deliver_all":
		answer, err := deliverAll(ctx, env,
			DeliverAllParams{Recipient: p.Recipient, Timeout: p.Timeout, BatchSize: p.BatchSize, Wait: true})
		return RouteResult{"deliver_all", answer}, err
	case "send":
		if p.Recipient == "" {
			return RouteResult{}, missing("RECIPIENT", "send")
		}
		if p.Type == "" {
			return RouteResult{}, missing("MESSAGE_TYPE", "send")
		}
		answer, err := send(ctx, env, SendParams{
			Sender: p.Sender, Recipient: p.Recipient, Type: p.Type, Payload: p.Payload, MaxRetries: p.MaxRetries,
			Priority: p.Priority, TTL: p.TTL, IdempotencyKey: p.IdempotencyKey, ReplyTo: p.ReplyTo,
			NotBefore: p.NotBefore,
		})
		return RouteResult{"send", answer}, err
	default:
		answer, err := clearOld(ctx, env, ClearOldParams{OlderThanDays: p.OlderThanDays})
		return RouteResult{"clear_old", answer}, err
	}
}

// allowed returns an error if a caller that is not an administrator does anything other than send, or poll its own
// messages. send checks the sender.
func (p *RouteParams) allowed(caller commands.Caller) error {
	switch {
	case caller.Admin || p.Action == "send":
		return nil
	case p.Action != "poll":
		return orchestrator.Errorf(orchestrator.PermissionDenied, "only an administrator may use ACTION %s", p.Action).
			WithHint("Use ACTION poll for your own messages, or ACTION send")
	}
	_, err := commands.ActAs(caller, p.Recipient)
	return err
}

func missing(parameter, action string) error {
	return orchestrator.InvalidParam(parameter, "missing, but the action %s requires it", action)
}
