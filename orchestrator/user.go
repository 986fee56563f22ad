package orchestrator

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"mailroom/tracing"
)

// userSchemes are the transports to the user and the user's devices, which no agent can have.
var userSchemes = []string{"person", "push", "ntfy"}

// askingTypes are the message types that want an answer of whoever gets them, in the vocabularies that have such.
var askingTypes = []string{"QUERY", "question", "plan_approval_request", "shutdown_request"}

// AsksUser reports whether a message of this type to User becomes a question; others become alerts.
func AsksUser(messageType string) bool { return slices.Contains(askingTypes, messageType) }

// UserReply is what goes back to the sender of a message that asked the user.
type UserReply struct {
	Question string      // its id
	Draft    Draft       // the answer; its sender is the user
	Team     *TeamAnswer // it answers a request of the team vocabulary; its draft is Draft
}

// ReplyAsUser sends the answer of a question that a message asked back to its sender, and notes that, in one
// transaction. A question that was answered so already, or is not answered, is left alone. Where that cannot be done,
// since a request was withdrawn or its sender is gone, the trace says so, and so does a report to who asked. Errors:
// not_found, those of Send.
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
		failure, err := t.reply(&reply, &draft)
		if err == nil && failure != nil && !slices.Contains([]Code{Conflict, NotFound, InvalidParams, UnknownRecipient, Unavailable}, CodeOf(failure)) {
			err = failure
		}
		if err != nil {
			return err
		}
		return t.answerReturned(&q, failure)
	})
}

// reply sends an answer of the user. Who asked in the form of a team's request, and has none that is open to the user, gets
// a plain message. failure is why it was not sent.
func (t *tx) reply(reply *UserReply, draft *Draft) (failure, err error) {
	if reply.Team != nil {
		failure, err = t.apart(func() error {
			answer := *reply.Team
			answer.Draft = *draft
			_, err := t.answer(answer)
			return err
		})
		if err != nil || !slices.Contains([]Code{NotFound, PermissionDenied, InvalidParams}, CodeOf(failure)) {
			return failure, err
		}
	}
	return t.apart(func() error {
		_, refusal, err := t.send(draft)
		return cmp.Or(err, refusal)
	})
}

// answerReturned notes that an answer went back, or why it never will.
func (t *tx) answerReturned(q *Question, failure error) error {
	if _, err := t.Exec(`UPDATE signal_questions SET returned_at = ? WHERE question_id = ?`, t.now, q.ID); err != nil {
		return err
	}
	if failure != nil {
		if err := t.reportLost(q, failure); err != nil {
			return err
		}
		t.after = append(t.after, func() { t.r.log.Warn("an answer of the user did not go back", "question", q.ID, "error", failure) })
		return t.noteSignal(q.ID, tracing.Failed, string(q.Status), string(q.Status), "the answer did not go back: "+failure.Error())
	}
	return t.noteSignal(q.ID, tracing.Delivered, string(q.Status), string(q.Status), "the answer went back")
}

// reportLost tells who asked that there is an answer, which cannot go back.
func (t *tx) reportLost(q *Question, failure error) error {
	payload, err := json.Marshal(map[string]any{
		"error": CodeOf(failure), "message": User + " has answered, but the answer could not be sent: " + failure.Error(),
		"message_id": q.MessageID, "recipient": User, "question_id": q.ID,
	})
	if err != nil {
		return err
	}
	return t.tell(&Draft{Recipient: q.Asker, Type: "error_report", Payload: payload, ThreadID: q.ThreadID})
}

// hasDevice reports whether the user has a device that shows what is sealed.
func (c *conn) hasDevice() (bool, error) {
	n, err := c.number(`SELECT EXISTS (SELECT 1 FROM signal_devices WHERE state = 'active' AND kind = '` + DeviceApp + `')`)
	return n != 0, err
}

// mayReachUser looks whether a device could show a message to the user: one that asks is refused without, and of another its
// sender is told in note that it waits.
func (t *tx) mayReachUser(d *Draft) (note string, err error) {
	there, err := t.hasDevice()
	if err != nil || there {
		return "", err
	}
	if !AsksUser(d.Type) {
		return waitsForDevice, nil
	}
	e := Errorf(Unavailable, "%s has no phone that could show the question; nothing was sent", User)
	e.Recipient = User
	return "", e.WithHint("`mailroom signal pair` adds a phone")
}

// CheckActor refuses to let anybody act under the user's name. Error: unknown_sender.
func CheckActor(name string) error {
	if name == User {
		return Errorf(UnknownSender, "%s is the person who runs the agents, and answers on a phone", User).
			WithHint("Act as an agent; `mailroom agent list` shows who there is")
	}
	return nil
}
