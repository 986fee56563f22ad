package route

import (
	"context"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator/messages"
)

// AcknowledgeParams name the message that was dealt with.
type AcknowledgeParams struct {
	MessageID string `json:"message_id" desc:"message that its recipient has handled" check:"id" arg:"1"`
}

// AcknowledgeResult tells when it was acknowledged first.
type AcknowledgeResult struct {
	MessageID      string `json:"message_id"`
	Recipient      string `json:"recipient"`
	Status         string `json:"status"`
	ReadAt         string `json:"read_at"`
	AcknowledgedAt string `json:"acknowledged_at"`
}

var acknowledgeCommand = commands.Define(vocabulary, "acknowledge", acknowledge)

// acknowledge is idempotent: a repeat answers with the first time.
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

// Text says it in a sentence.
func (r AcknowledgeResult) Text(w *terminal.Text) {
	w.Printf("%s was acknowledged by %s, %s.\n", r.MessageID, r.Recipient, w.When(r.AcknowledgedAt))
}
