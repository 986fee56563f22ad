package orchestrator

import (
	"context"
	"slices"

	"mailroom/tracing"
)

// User is the name of the person who runs the agents. It is no agent: nobody acts under it, and it belongs to no list of
// them, but anybody can write to it. Its transport, `person`, turns a message into a question or an alert for that
// person's devices. Source: signal.md, "Life of a question".
const User = "user"

// userSchemes are the transports to the user and the user's devices, which no agent can have.
var userSchemes = []string{"person", "push", "ntfy"}

// askingTypes are the message types that want an answer of whoever gets them, in the vocabularies that have such.
var askingTypes = []string{"QUERY", "question", "plan_approval_request", "shutdown_request"}

// AsksUser reports whether a message of this type to User becomes a question; others become alerts.
func AsksUser(messageType string) bool { return slices.Contains(askingTypes, messageType) }

// withUser adds those whom messages can reach though they are no agents: the user, and the devices that are pushed to.
func (conf *config) withUser(devices []*Agent) {
	conf.agents[User] = &Agent{Name: User, Deliver: "person:", TimeoutSeconds: 30}
	for _, d := range devices {
		conf.agents[d.Name] = d
	}
}

// UserReply is what goes back to the sender of a message that asked the user.
type UserReply struct {
	Question string      // its id
	Draft    Draft       // the answer; its sender is the user
	Team     *TeamAnswer // it answers a request of the team vocabulary; its draft is Draft
}

// ReplyAsUser sends the answer of a question that a message asked back to its sender, and notes that, in one
// transaction. A question that was answered so already, or is not answered, is left alone. A request that cannot be
// answered any more, since it was withdrawn or its sender is gone, counts as answered, and the trace says so. Errors: not_found, those of Send.
func (r *Router) ReplyAsUser(ctx context.Context, reply UserReply) error {
	draft := reply.Draft
	draft.Sender = User
	var err error
	if reply.Team != nil {
		draft, err = draft.checkProtocol()
	} else {
		draft, err = draft.check()
	}
	if err != nil {
		return err
	}
	return r.write(ctx, func(t *tx) error {
		t.asUser = true
		defer func() { t.asUser = false }()
		q, err := t.question(reply.Question)
		if err != nil || q.Status != QuestionAnswered || q.ReturnedAt != "" {
			return err
		}
		failure, err := t.apart(func() (err error) {
			if reply.Team == nil {
				_, _, err = t.send(&draft)
				return err
			}
			answer := *reply.Team
			answer.Draft = draft
			_, err = t.answer(answer)
			return err
		})
		if err == nil && reply.Team != nil && CodeOf(failure) == NotFound { // it asked in the team's form, outside of a team
			failure, err = t.apart(func() (err error) {
				_, _, err = t.send(&draft)
				return err
			})
		}
		if err == nil && failure != nil && !slices.Contains([]Code{Conflict, NotFound, InvalidParams}, CodeOf(failure)) {
			err = failure
		}
		if err != nil {
			return err
		}
		return t.answerReturned(&q, failure)
	})
}

// answerReturned notes that an answer went back, or why it never will.
func (t *tx) answerReturned(q *Question, failure error) error {
	if _, err := t.Exec(`UPDATE signal_questions SET returned_at = ? WHERE question_id = ?`, t.now, q.ID); err != nil {
		return err
	}
	if failure != nil {
		t.after = append(t.after, func() { t.r.log.Warn("an answer of the user did not go back", "question", q.ID, "error", failure) })
		return t.noteSignal(q.ID, tracing.Failed, string(q.Status), string(q.Status), "the answer did not go back: "+failure.Error())
	}
	return t.noteSignal(q.ID, tracing.Delivered, string(q.Status), string(q.Status), "the answer went back")
}

// mayAskUser refuses a message that asks the user while no device could show the question.
func (t *tx) mayAskUser(d *Draft) error {
	if !AsksUser(d.Type) {
		return nil
	}
	n, err := t.number(`SELECT EXISTS (SELECT 1 FROM signal_devices WHERE state = 'active' AND kind = '` + DeviceApp + `')`)
	if err != nil || n != 0 {
		return err
	}
	e := Errorf(Unavailable, "%s has no phone that could show the question; nothing was sent", User)
	e.Recipient = User
	return e.WithHint("`mailroom signal pair` adds a phone")
}

// mayAct refuses to let anybody act under the user's name.
func (t *tx) mayAct(name string) error {
	if name == User && !t.asUser {
		return Errorf(UnknownSender, "%s is the person who runs the agents, and answers on a phone", User).
			WithHint("Act as an agent; `mailroom agent list` shows who there is")
	}
	return nil
}
