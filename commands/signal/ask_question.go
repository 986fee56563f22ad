package signal

import (
	"context"

	"mailroom/commands"
	"mailroom/commands/parameter"
	"mailroom/commands/terminal"
	"mailroom/orchestrator/person"
	"mailroom/tracing"
)

// AskQuestionParams describes a question to the person. Source: document 000, "ask_question".
type AskQuestionParams struct {
	Question  string            `json:"question" desc:"the question to ask" check:"private,characters,min=1,max=2000" arg:"rest"`
	Options   []string          `json:"options,omitempty" desc:"different choices of at most 100 characters each; without any, the answer is a text" check:"private,max=5" also:"option"`
	Context   string            `json:"context,omitempty" desc:"background information for the person" check:"private,characters,max=500"`
	Priority  string            `json:"priority,omitempty" desc:"priority of the notification: low is silent, high stays until the person acts on it; default: normal" check:"oneof=low|normal|high"`
	Encrypt   bool              `json:"encrypt,omitempty" desc:"encrypt the question end to end, so only the person's devices can read it" default:"true"`
	ThreadID  string            `json:"threadId,omitempty" desc:"thread of follow-up questions" check:"max=256"`
	InReplyTo string            `json:"inReplyTo,omitempty" desc:"question that this one follows up on" check:"max=256"`
	ProjectID string            `json:"projectId,omitempty" desc:"project that the question belongs to" check:"max=256"`
	TTL       parameter.Seconds `json:"ttl,omitempty" desc:"seconds after which the question expires without an answer" check:"min=1,max=2592000" default:"604800"`
	Source    string            `json:"source,omitempty" desc:"program that asks; may be left out if the caller's credential names it" check:"agent"`
}

// AskQuestionResult names the question.
type AskQuestionResult struct {
	QuestionID string `json:"questionId"`
	Message    string `json:"message"`
	Devices    int    `json:"devices"`        // that can show the question
	Note       string `json:"note,omitempty"` // what may prevent its display
}

var askQuestionCommand = commands.Define(vocabulary, "ask_question", askQuestion).
	With(commands.Traits{Kind: tracing.Producer, BesideAny: true, Document: true}).
	Called("ask", "", "Ask the person a question on a phone or in a paired browser")

// askQuestion asks a question. The question is durable when askQuestion returns. An encrypted question is encrypted
// in this process, and its clear text exists nowhere else.
func askQuestion(ctx context.Context, env commands.Env, p AskQuestionParams) (AskQuestionResult, error) {
	source, err := commands.ActAs(env.Caller, p.Source)
	if err != nil {
		return AskQuestionResult{}, err
	}
	asked, err := person.Ask(ctx, env.Ledger, person.Question{
		Asker: source, Question: p.Question, Options: p.Options, Context: p.Context, Priority: p.Priority,
		Encrypted: p.Encrypt, SessionID: env.Caller.Session, ThreadID: p.ThreadID, InReplyTo: p.InReplyTo,
		ProjectID: p.ProjectID, TTL: p.TTL.Duration(),
	})
	if err != nil {
		return AskQuestionResult{}, err
	}
	return AskQuestionResult{asked.ID, "Question sent to device", asked.Devices,
		noteOf(ctx, env, asked.Unused, asked.Devices, asked.Pushed, "")}, nil
}

// Text writes the result for people.
func (r AskQuestionResult) Text(w *terminal.Text) {
	w.Printf("Asked question %s (devices: %d). To get the answer, run `mailroom signal get_response %s`.\n",
		w.Paint(terminal.Bold, r.QuestionID), r.Devices, r.QuestionID)
	if r.Note != "" {
		w.Printf("%s.\n", r.Note)
	}
}
