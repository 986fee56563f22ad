package signal

import (
	"context"

	"mailroom/commands"
	"mailroom/orchestrator/person"
)

// CancelParams say which question to take back.
type CancelParams struct {
	QuestionID string `json:"questionId" desc:"question to take back" check:"id" arg:"1"`
}

// CancelResult says how the question stands.
type CancelResult struct {
	QuestionID string `json:"questionId"`
	Status     string `json:"status"` // cancelled
}

var cancelCommand = commands.Define(vocabulary, "signal cancel", cancel).Knowing("questionId", knownQuestions)

func cancel(ctx context.Context, env commands.Env, p CancelParams) (CancelResult, error) {
	q, err := person.Cancel(ctx, env.Ledger, p.QuestionID, env.Caller.Name)
	return CancelResult{q.ID, string(q.Status)}, err
}

// Text says it in a sentence.
func (r CancelResult) Text(w *commands.Text) {
	w.Printf("%s is %s; its notification goes from the devices that had one.\n", w.Paint(commands.Bold, r.QuestionID), r.Status)
}
