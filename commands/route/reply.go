package route

import (
	"context"
	"encoding/json"

	"mailroom/commands"
	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/store"
	"mailroom/tracing"
)

// ReplyParams describes an answer to a message.
type ReplyParams struct {
	MessageID string          `json:"message_id" desc:"message to answer" check:"id" arg:"1"`
	Payload   json.RawMessage `json:"payload" desc:"any JSON value, at most 1 MiB" arg:"rest"`
	Type      string          `json:"message_type,omitempty" desc:"any word" check:"min=1,max=64" also:"type" default:"message"`
	Sender    string          `json:"sender,omitempty" desc:"agent that answers; may be left out if --as or MAILROOM_AGENT names it" check:"agent"`
}

var replyCommand = commands.Define(vocabulary, "reply", reply).With(commands.Traits{
	Kind: tracing.Producer,
	Last: func(m *orchestrator.Message, caller string) bool { return m.Recipient == caller && m.Sender != caller },
})

// reply sends to the sender of the message. If the caller sent the message itself, the reply goes to its recipient.
func reply(ctx context.Context, env commands.Env, p ReplyParams) (SendResult, error) {
	sender, err := commands.ActAs(env.Caller, p.Sender)
	if err != nil {
		return SendResult{}, err
	}
	var m orchestrator.Message
	err = env.Ledger.View(ctx, func(c *store.Conn, conf *ledger.Config) error {
		m, err = messages.OwnToAnswer(c, conf, p.MessageID, sender)
		return err
	})
	if err != nil {
		return SendResult{}, err
	}
	to := m.Sender
	if orchestrator.FoldName(to) == orchestrator.FoldName(sender) {
		to = m.Recipient
	}
	return send(ctx, env, SendParams{Sender: sender, Recipient: to, Type: p.Type, Payload: p.Payload,
		ReplyTo: p.MessageID})
}
