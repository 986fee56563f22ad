package signal

import (
	"context"

	"mailroom/commands"
	"mailroom/commands/parameter"
	"mailroom/commands/terminal"
	"mailroom/orchestrator/person"
	"mailroom/orchestrator/questions"
	"mailroom/tracing"
)

// GetResponseParams names a question. Source: document 000, "get_response".
type GetResponseParams struct {
	QuestionID string            `json:"questionId" desc:"question ID that ask_question returned" check:"id" arg:"1"`
	Wait       parameter.Seconds `json:"wait_seconds,omitempty" desc:"seconds to wait if there is no answer yet; default: do not wait" check:"min=0,max=55"`
}

// GetResponseResult holds whether the question is answered, and the answer.
type GetResponseResult struct {
	Answered bool   `json:"answered"`
	Response string `json:"response,omitempty"`
	Comment  string `json:"comment,omitempty"` // what the person wrote in addition to the option
	Status   string `json:"status,omitempty"`  // expired or cancelled: there will be no answer
	Note     string `json:"note,omitempty"`    // about an answer that was refused
	commands.Waited
}

var getResponseCommand = commands.Define(vocabulary, "get_response", getResponse).
	With(commands.Traits{Kind: tracing.Consumer, BesideAny: true, Document: true}).Knowing("questionId", knownQuestions)

// getResponse returns the answer, decrypted in this process. The answer can be read again for ten minutes.
func getResponse(ctx context.Context, env commands.Env, p GetResponseParams) (GetResponseResult, error) {
	read, err := person.Read(ctx, env.Ledger, p.QuestionID, env.Caller.Name, env.Wait(p.Wait.Duration()))
	if err != nil {
		return GetResponseResult{}, err
	}
	r := GetResponseResult{Answered: read.Answered, Response: read.Text, Comment: read.Comment}
	if read.Status == questions.Expired || read.Status == questions.Cancelled {
		r.Status = string(read.Status)
	}
	if !read.Answered && r.Status == "" {
		r.Waited = env.WaitedFor(p.Wait.Duration())
	}
	if read.Refused != "" {
		r.Note = "An answer was refused: " + read.Refused
	}
	return r, nil
}

// Open reports whether an answer may still arrive.
func (r GetResponseResult) Open() bool { return !r.Answered && r.Status == "" }

// Text writes the answer.
func (r GetResponseResult) Text(w *terminal.Text) {
	switch {
	case r.Answered:
		w.Block("", "  ", r.Response)
		if r.Comment != "" {
			w.Block("", "  ", r.Comment)
		}
	case r.Status != "":
		w.Printf("There is no answer: the question is %s.\n", r.Status)
	default:
		w.Printf("There is no answer yet.\n")
	}
	if r.Note != "" {
		w.Printf("%s.\n", r.Note)
	}
}
