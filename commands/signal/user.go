package signal

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"mailroom/commands"
	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/letter"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/person"
	"mailroom/orchestrator/questions"
	"mailroom/orchestrator/teams"
)

// NewUser returns the transport of the agent `user` of a database. A message to that person, in any vocabulary,
// becomes an alert on the phone. If the message asks for an answer, it becomes a question, and the answer goes back
// to the sender in the form of the message's vocabulary. The scheme of the transport is `person`.
//
// A message becomes one question or alert, however often it is delivered. Both are encrypted for the devices. The
// message itself and the answer that goes back are stored in the table like all other messages. Source: signal.md,
// "Life of a question".
func NewUser(l *ledger.Ledger) orchestrator.Transport { return user{l} }

type user struct{ ledger *ledger.Ledger }

// Check accepts no address, because there is only one person.
func (user) Check(address string) (string, error) {
	if address != "" {
		return "", orchestrator.Errorf(orchestrator.InvalidParams, "the agent `user` does not take an address")
	}
	return "", nil
}

// IsRooted returns true, because the keys of questions are on one host; see person.Here.
func (user) IsRooted(string) bool { return true }

// MaxBatch returns 1, because each message becomes a separate question or alert.
func (user) MaxBatch() int { return 1 }

// Deliver turns a message into a question or an alert.
func (u user) Deliver(ctx context.Context, a orchestrator.Attempt) []error {
	m := &a.Messages[0]
	if agents.AsksUser(m.Type) {
		q, err := questionOf(m, u.ledger.Now())
		if err == nil {
			_, err = person.Ask(ctx, u.ledger, q)
		}
		return []error{err}
	}
	told, err := person.Tell(ctx, u.ledger, alertOf(m))
	if err == nil && told.Devices == 0 { // the alert is stored, but shown to nobody yet
		err = orchestrator.ErrNoDevice
	}
	return []error{err}
}

// Bounds of the text shown to the person, in characters. Source: signal.md, "Life of a question".
const (
	maxText    = 2000
	maxContext = 500
)

// verdicts are the options for a team's request.
var verdicts = []string{approval: "Approve", "Reject"}

// approval is the index of the option that approves.
const approval = 0

// questionOf returns the question in a message. Text that is too long for a phone is shortened, and then names the
// message with the full text. It returns ErrRefused for a message that contains no valid question.
func questionOf(m *orchestrator.Message, now time.Time) (person.Question, error) {
	q := person.Question{
		Asker: m.Sender, Encrypted: true, Priority: priorityOf(m), SessionID: m.SessionID, ThreadID: m.ThreadID,
		MessageID: m.ID,
		Context:   cut(m.Context, maxContext, m.ID), TTL: person.DefaultTTL,
	}
	if ends, err := time.Parse(time.RFC3339, m.TTLEnd()); err == nil {
		q.TTL = max(min(ends.Sub(now), orchestrator.MaxTTL), time.Second)
	}
	c := commands.ContentOf(m)
	var said struct {
		Question string   `json:"question"` // a question of document 002
		Options  []string `json:"options"`
		TaskID   string   `json:"taskId"`
		Plan     string   `json:"plan"` // a request of a team
		Reason   string   `json:"reason"`
	}
	_ = json.Unmarshal(c.Data, &said) // fields of another form are ignored
	text := c.Text
	switch m.Type {
	case orchestrator.PlanApprovalRequest:
		q.Options, text = verdicts, "May I carry out this plan? "+cmp.Or(said.Plan, text)
	case orchestrator.ShutdownRequest:
		q.Options, text = verdicts, "Shut down? "+cmp.Or(said.Reason, m.Summary, "Requested by "+m.Sender)
	default:
		text = cmp.Or(said.Question, text)
		if err := checkQuestion(c.Data, cmp.Or(strings.TrimSpace(text), m.Summary)); err != nil {
			return q, fmt.Errorf("%w: %w", orchestrator.ErrRefused, err)
		}
		if q.Context == "" && said.TaskID != "" {
			q.Context = cut("Task "+said.TaskID, maxContext, m.ID)
		}
		q.Options = said.Options
	}
	q.Question = shorten(text, m)
	return q, nil
}

// checkQuestion returns an error for a message that contains no question, or whose question or options do not have
// the form that ask_question requires. The errors do not contain the message's content.
func checkQuestion(data json.RawMessage, text string) error {
	if text == "" {
		return errors.New("the message contains no question: its text is empty")
	}
	var asked map[string]json.RawMessage
	if json.Unmarshal(data, &asked) != nil { // not an object
		if text == strings.TrimSpace(string(data)) {
			return errors.New("the message contains no question: its payload must be a text or an object")
		}
		return nil
	}
	var question string
	if raw, ok := asked["question"]; ok && json.Unmarshal(raw, &question) != nil {
		return errors.New("question: must be a text")
	} else if ok && strings.TrimSpace(question) == "" {
		return errors.New("question: must not be empty")
	}
	var options []string
	if raw, ok := asked["options"]; ok && json.Unmarshal(raw, &options) != nil {
		return errors.New("options: must be a list of texts")
	}
	return person.CheckOptions(options)
}

// alertOf returns the alert for a message.
func alertOf(m *orchestrator.Message) person.Alert {
	a := person.Alert{
		Sender: m.Sender, Message: shorten(commands.ContentOf(m).Text, m), Type: "info", Encrypted: true,
		Priority: priorityOf(m),
		Context:  cut(m.Context, maxContext, m.ID), SessionID: m.SessionID, MessageID: m.ID,
	}
	if strings.Contains(m.Type, "error") || strings.Contains(m.Type, "failed") || m.Type == "agent_timeout" ||
		m.Type == "bug_report" {
		a.Type = "error"
	}
	return a
}

// shorten returns a text of at most maxText characters. If the text is empty, it uses the summary or the type
// instead.
func shorten(text string, m *orchestrator.Message) string {
	if strings.TrimSpace(text) == "" {
		text = cmp.Or(m.Summary, m.Type, "a message")
	}
	return cut(text, maxText, m.ID)
}

// cut shortens a text to at most most characters, including a note on where the full text is.
func cut(text string, most int, id string) string {
	text = strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "\uFFFD")
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	rest := fmt.Sprintf("... (shortened; the full text is in %s)", orchestrator.Clip(id))
	return string([]rune(text)[:most-utf8.RuneCountInString(rest)]) + rest
}

// priorityOf returns the priority of a message in the words of the devices.
func priorityOf(m *orchestrator.Message) string {
	switch {
	case m.Priority > 0:
		return "high"
	case m.Priority < 0:
		return "low"
	}
	return "normal"
}

// Return sends the answers to questions that were made from messages back to the senders. A forged answer makes its
// question open again. An answer that cannot be decrypted because its key is gone is reported to the asker. After any
// other failure, the next run tries again. An answer goes to nobody, with the error permission_denied, if the asker
// of its question did not send the message, whatever the table contains. On a host without the keys, Return does
// nothing.
func (u user) Return(ctx context.Context) error {
	if err := person.Here(ctx, u.ledger); err != nil {
		return nil // the host with the keys does it
	}
	var failures []error
	for after := ""; ; {
		list, err := questions.Unreturned(ctx, u.ledger, after)
		if err != nil || len(list) == 0 {
			return errors.Join(append(failures, err)...)
		}
		for i := range list {
			if err := giveBack(ctx, u.ledger, &list[i]); err != nil {
				failures = append(failures, fmt.Errorf("%s: %w", list[i].ID, err))
			}
		}
		after = list[len(list)-1].ID
	}
}

// giveBack sends one answer back.
func giveBack(ctx context.Context, l *ledger.Ledger, q *questions.Question) error {
	answer, unread := person.Look(ctx, l, q.ID)
	gone := errors.Is(unread, person.ErrKeyMissing)
	if unread != nil && !gone || unread == nil && !answer.Answered {
		return unread
	}
	if unread == nil {
		q = &answer.Question
	}
	// A message with these fields stands in for one that retention has deleted.
	m := &orchestrator.Message{Sender: q.Asker, ThreadID: q.ThreadID, SessionID: q.SessionID}
	found, err := messages.Find(ctx, l, q.MessageID)
	switch {
	case err == nil:
		m = &found[0]
	case orchestrator.CodeOf(err) != orchestrator.NotFound:
		return err
	}
	if m.Sender != q.Asker { // somebody who did not ask would read the answer
		return orchestrator.Errorf(orchestrator.PermissionDenied,
			"message %s is from %s, but question %s was asked by %s, so the answer was not sent",
			orchestrator.Clip(q.MessageID), orchestrator.Clip(m.Sender), q.ID, orchestrator.Clip(q.Asker))
	}
	if gone { // the key is not on this host, and will not be
		return questions.ReplyAsUser(ctx, l, lost(m, q.ID, unread))
	}
	reply, err := replyTo(m, &answer)
	if err == nil {
		err = person.Vouch(l, &answer, &reply.Draft)
	}
	if err != nil {
		return err
	}
	return questions.ReplyAsUser(ctx, l, reply)
}

// replyTo returns the answer to a message, in the form of the message's vocabulary.
func replyTo(m *orchestrator.Message, answer *person.Response) (reply questions.UserReply, err error) {
	reply = questions.UserReply{Question: answer.ID, Draft: orchestrator.Draft{
		Recipient: m.Sender, ReplyTo: m.ID, ThreadID: m.ThreadID, SessionID: m.SessionID,
	}}
	d := &reply.Draft
	text := answer.Text
	if answer.Comment != "" {
		text += ": " + answer.Comment // in one text, because every vocabulary shows that
	}
	var body any
	isRequest := m.Type == orchestrator.PlanApprovalRequest || m.Type == orchestrator.ShutdownRequest
	switch {
	// The check of the text excludes answers such as Yes to another question whose type was changed in the table.
	case isRequest && slices.Contains(verdicts, answer.Text):
		return verdict(m, reply, answer.Text == verdicts[approval], answer.Comment)
	case m.Type == "question":
		d.Type, d.MakeID = "answer", letter.ID
		body = struct {
			Question string `json:"questionId"`
			Answer   string `json:"answer"`
		}{m.ID, text}
	default:
		d.Type = "RESULT"
		body = struct {
			Message string `json:"message"`
		}{text}
	}
	d.Payload, err = orchestrator.JSON(body)
	return reply, err
}

// verdict returns the answer to a team's request, with the person's comment. Source: document 001, "Structured
// Protocol Messages".
func verdict(m *orchestrator.Message, reply questions.UserReply, approve bool, comment string) (questions.UserReply,
	error) {
	var asked struct {
		RequestID string `json:"requestId"`
	}
	if err := json.Unmarshal(m.Payload, &asked); err != nil {
		asked.RequestID = "" // the request has another form; the answer names it in reply_to
	}
	q := orchestrator.Asked{RequestID: asked.RequestID, Kind: orchestrator.Shutdown}
	if m.Type == orchestrator.PlanApprovalRequest {
		q.Kind = orchestrator.PlanApproval
	}
	var why *string
	switch {
	case comment != "":
		why = &comment
	case !approve:
		why = new("The user rejected the request. Ask what to change")
	}
	v, err := commands.TeamVerdict(q, approve, why)
	if err != nil {
		return reply, err
	}
	reply.Team = &teams.Reply{Kind: q.Kind, RequestID: q.RequestID, Approve: approve}
	reply.Draft.Type, reply.Draft.Payload, reply.Draft.Summary = v.Type, v.Payload, v.Summary
	reply.Draft.SessionID = cmp.Or(m.SessionID, orchestrator.DefaultSession)
	return reply, nil
}

// lost returns the report to the asker that there is an answer which nobody can read.
func lost(m *orchestrator.Message, question string, why error) questions.UserReply {
	payload, _ := orchestrator.JSON(map[string]any{ // strings always marshal
		"error": orchestrator.Unavailable, "message": "the user has answered, but the answer cannot be read: " +
			why.Error(),
		"message_id": m.ID, "question_id": question,
	})
	return questions.UserReply{Question: question, Draft: orchestrator.Draft{
		Recipient: m.Sender, Type: "error_report", Payload: payload, ReplyTo: m.ID, ThreadID: m.ThreadID,
		SessionID: m.SessionID,
	}}
}
