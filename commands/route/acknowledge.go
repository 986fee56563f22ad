package route

import (
	"context"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator/messages"
)

// AcknowledgeParams names the message that was handled.
type AcknowledgeParams struct {
	MessageID string `json:"message_id" desc:"message that its recipient has handled" check:"id" arg:"1"`
}

// AcknowledgeResult holds when the message was first acknowledged.
type AcknowledgeResult struct {
	MessageID      string `json:"message_id"`
	Recipient      string `json:"recipient"`
	Status         string `json:"status"`
	ReadAt         string `json:"read_at"`
	AcknowledgedAt string `json:"acknowledged_at"`
}

var acknowledgeCommand = commands.Define(vocabulary, "acknowledge", acknowledge)

// acknowledge marks a message as handled. It is idempotent: a repeated call returns the time of the first.
func acknowledge(ctx context.Context, env commands.Env, p AcknowledgeParams) (AcknowledgeResult, error) {
	m, err := messages.Acknowledge(ctx, env.Ledger, p.MessageID, env.Caller.Name)
	if err != nil {
		return AcknowledgeResult{}, err
	}
	return AcknowledgeResult{
		MessageID: m.ID, Recipient: m.Recipient, Status: string(m.Status), ReadAt: m.ReadAt,
		AcknowledgedAt: m.AcknowledgedAt,
	}, nil
}

// Text writes the result for people.
func (r AcknowledgeResult) Text(w *terminal.Text) {
	w.Printf("%s was acknowledged by %s, %s.\n", r.MessageID, r.Recipient, w.When(r.AcknowledgedAt))
}
