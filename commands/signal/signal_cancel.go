package signal

import (
	"cmp"
	"context"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator/person"
)

// CancelParams names the question to cancel.
type CancelParams struct {
	QuestionID string `json:"questionId" desc:"question to cancel" check:"id" arg:"1"`
	Source     string `json:"source,omitempty" desc:"program that asked the question; only administrators can name another program" check:"agent"`
}

// CancelResult holds the status of the question.
type CancelResult struct {
	QuestionID string `json:"questionId"`
	Status     string `json:"status"` // cancelled
}

var cancelCommand = commands.Define(vocabulary, "signal cancel", cancel).Knowing("questionId", knownQuestions)

func cancel(ctx context.Context, env commands.Env, p CancelParams) (CancelResult, error) {
	by := cmp.Or(p.Source, env.Caller.Name)
	if !env.Caller.Admin {
		var err error
		if by, err = commands.ActAs(env.Caller, by); err != nil {
			return CancelResult{}, err
		}
	}
	q, err := person.Cancel(ctx, env.Ledger, p.QuestionID, by)
	return CancelResult{q.ID, string(q.Status)}, err
}

// Text writes the result for people.
func (r CancelResult) Text(w *terminal.Text) {
	w.Printf("%s is %s. Mailroom removes its notification from the devices.\n", w.Paint(terminal.Bold, r.QuestionID),
		r.Status)
}
