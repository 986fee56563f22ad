package signal

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"

	"mailroom/commands"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/push"
	"mailroom/orchestrator/questions"
)

// ListParams selects questions.
type ListParams struct {
	Status string `json:"status,omitempty" desc:"list only questions with this status" check:"oneof=pending|answered|expired|cancelled"`
	Source string `json:"source,omitempty" desc:"list only questions of this program; only administrators can name another program" check:"agent"`
	All    bool   `json:"all,omitempty" desc:"list the questions of all programs; only for administrators"`
	Limit  int    `json:"limit,omitempty" desc:"maximum number of questions, newest first" check:"min=1,max=100" default:"20"`
}

// Listed is a question. The content of an encrypted question cannot be shown, because only the devices can read it.
type Listed struct {
	QuestionID string   `json:"questionId"`
	Source     string   `json:"source"`
	Status     string   `json:"status"`
	Encrypted  bool     `json:"encrypted"`
	Question   string   `json:"question,omitempty"`
	Options    []string `json:"options,omitempty"`
	Context    string   `json:"context,omitempty"`
	Answer     string   `json:"answer,omitempty"`
	Comment    string   `json:"comment,omitempty"` // what the person wrote in addition to the option
	Priority   string   `json:"priority"`
	CreatedAt  string   `json:"createdAt"`
	ExpiresAt  string   `json:"expiresAt"`
	EndedAt    string   `json:"endedAt,omitempty"`
	AnsweredBy string   `json:"answeredBy,omitempty"` // device
	ReadAt     string   `json:"readAt,omitempty"`     // when its asker first got the answer
	SessionID  string   `json:"sessionId,omitempty"`
	ThreadID   string   `json:"threadId,omitempty"`
	InReplyTo  string   `json:"inReplyTo,omitempty"`
	ProjectID  string   `json:"projectId,omitempty"`
	MessageID  string   `json:"messageId,omitempty"` // the message to user from which the question was made
	Pushes     []Pushed `json:"pushes"`
}

// Pushed is the state of a question's push to one device.
type Pushed struct {
	Device string `json:"device"`
	Status string `json:"status"`          // status of the push message
	Error  string `json:"error,omitempty"` // of the last failed attempt
}

// ListResult holds the questions, newest first.
type ListResult struct {
	Count     int      `json:"count"`
	Questions []Listed `json:"questions"`
}

var listCommand = commands.Define(vocabulary, "signal list", list)

// list lists questions. It changes nothing.
func list(ctx context.Context, env commands.Env, p ListParams) (ListResult, error) {
	of := cmp.Or(p.Source, env.Caller.Name)
	switch {
	case p.All && !env.Caller.Admin:
		return ListResult{},
			orchestrator.Errorf(orchestrator.PermissionDenied, "only administrators can list the questions of all programs").
				WithHint("To list your own questions, omit the parameter `all`")
	case p.All && p.Source != "":
		return ListResult{}, orchestrator.Errorf(orchestrator.InvalidParams, "`source` and `all` cannot be combined")
	case p.All:
		of = ""
	case !env.Caller.Admin:
		var err error
		if of, err = commands.ActAs(env.Caller, of); err != nil {
			return ListResult{}, err
		}
	}
	questions, err := questions.List(ctx, env.Ledger,
		questions.Filter{Asker: of, Own: of == env.Caller.Name, Status: questions.Status(p.Status), Limit: p.Limit})
	if err != nil {
		return ListResult{}, err
	}
	r := ListResult{Count: len(questions), Questions: make([]Listed, len(questions))}
	for i := range questions {
		r.Questions[i] = listed(&questions[i])
		if r.Questions[i].Pushes, err = pushes(ctx, env, questions[i].ID); err != nil {
			return ListResult{}, err
		}
	}
	return r, nil
}

func listed(q *questions.Question) Listed {
	l := Listed{
		QuestionID: q.ID, Source: q.Asker, Status: string(q.Status), Encrypted: q.Encrypted,
		Priority:  orchestrator.PriorityWord(q.Priority),
		CreatedAt: q.CreatedAt, ExpiresAt: q.ExpiresAt, EndedAt: q.EndedAt, AnsweredBy: q.AnsweredBy, ReadAt: q.ReadAt,
		SessionID: q.SessionID, ThreadID: q.ThreadID, InReplyTo: q.InReplyTo, ProjectID: q.ProjectID,
		MessageID: q.MessageID,
	}
	var said struct {
		Question string   `json:"question"`
		Options  []string `json:"options"`
		Context  string   `json:"context"`
	}
	if !q.Encrypted && json.Unmarshal([]byte(q.Body), &said) == nil {
		l.Question, l.Options, l.Context = said.Question, said.Options, said.Context
		l.Answer, l.Comment = answerOf(q.Answer, said.Options)
	}
	return l
}

// answerOf returns an answer stored in clear text: a text, or the chosen option and the comment added to it.
func answerOf(stored string, options []string) (answer, comment string) {
	var said struct {
		Option *int   `json:"option"`
		Text   string `json:"text"`
	}
	if json.Unmarshal([]byte(stored), &said) == nil && said.Option != nil && *said.Option >= 0 &&
		*said.Option < len(options) {
		return options[*said.Option], said.Text
	}
	return said.Text, ""
}

// maxPushes exceeds the number of pushes of one question: one for each device, and one more when the question ends.
const maxPushes = 100

// pushes returns the pushes of a question. It leaves out the pushes about the end of the question.
func pushes(ctx context.Context, env commands.Env, id string) ([]Pushed, error) {
	rows, _, err := messages.History(ctx, env.Ledger, messages.HistoryFilter{
		ThreadID: id, Sender: orchestrator.SystemSender, Type: "push", OldestFirst: true, Limit: maxPushes,
	})
	list := []Pushed{}
	for i := range rows {
		var sent push.Message
		if json.Unmarshal(rows[i].Payload, &sent) == nil && sent.Kind == push.Question {
			list = append(list,
				Pushed{strings.TrimPrefix(rows[i].Recipient, push.DevicePrefix), string(rows[i].Status), rows[i].Error})
		}
	}
	return list, err
}

// Text writes a line for each question, or that there is none.
func (r ListResult) Text(w *terminal.Text) {
	if len(r.Questions) == 0 {
		w.Printf("No questions match. To ask a question, run `mailroom signal ask_question`.\n")
		return
	}
	terminal.TableOf(w, []string{"QUESTION", "SOURCE", "STATUS", "ASKED", "EXPIRES", "PUSHED", "TEXT…"}, r.Questions,
		func(q *Listed) []string {
			says := q.Question
			if q.Encrypted {
				says = "(encrypted)"
			}
			var pushed []string
			for _, p := range q.Pushes {
				pushed = append(pushed, p.Device+" "+p.Status)
			}
			return []string{q.QuestionID, q.Source, q.Status, w.When(q.CreatedAt), w.When(q.ExpiresAt),
				strings.Join(pushed, ", "), says}
		})
}
