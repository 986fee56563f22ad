package route

import (
	"context"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/messages"
)

// CancelParams names the message to cancel.
type CancelParams struct {
	MessageID string `json:"message_id" desc:"message ID, or the multicast_id of a send to a group" check:"id" arg:"1"`
}

// CancelResult lists the canceled messages.
type CancelResult struct {
	MessageID string   `json:"message_id"`
	Status    string   `json:"status"` // cancelled
	Cancelled []string `json:"cancelled"`
}

var cancelCommand = commands.Define(vocabulary, "cancel", cancel).With(commands.Traits{
	Confirm: "This cancels {message_id}. Mailroom will never deliver it.",
	Last: func(m *orchestrator.Message, _ string) bool {
		return m.Status == orchestrator.Pending || m.Status == orchestrator.Retry
	},
})

// cancel cancels messages that are not delivered yet.
func cancel(ctx context.Context, env commands.Env, p CancelParams) (CancelResult, error) {
	ms, err := messages.Cancel(ctx, env.Ledger, p.MessageID, env.Caller.Name)
	if err != nil {
		return CancelResult{}, err
	}
	r := CancelResult{MessageID: p.MessageID, Status: string(ms[0].Status)}
	for i := range ms {
		r.Cancelled = append(r.Cancelled, ms[i].ID)
	}
	return r, nil
}

// Text writes the result for people.
func (r CancelResult) Text(w *terminal.Text) {
	if len(r.Cancelled) == 1 {
		w.Printf("Canceled %s. It will not be delivered.\n", w.Paint(terminal.Bold, r.Cancelled[0]))
		return
	}
	w.Printf("Canceled %s. Its %d messages will not be delivered.\n", w.Paint(terminal.Bold, r.MessageID), len(r.Cancelled))
}
