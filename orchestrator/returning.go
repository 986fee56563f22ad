package orchestrator

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"sync"

	"mailroom/orchestrator/store"
	"mailroom/tracing"
)

// Unreturned lists the answered questions that a message asked and whose answers have not gone back to its sender: the
// first 100, by id, behind the id after.
func (r *Router) Unreturned(ctx context.Context, after string) (list []Question, err error) {
	err = r.read(ctx, func(c *Conn) error {
		list = nil
		return c.query(`SELECT `+questionColumns+` FROM signal_questions WHERE `+unreturned+` AND question_id > ? AND question_id < x'' ORDER BY question_id LIMIT 100`,
			func(row store.Row) error {
				list = append(list, scanQuestion(row))
				return nil
			}, after)
	})
	return list, err
}

// unreturned is the condition for answers that have to go back to the senders of messages.
const unreturned = `status = 'answered' AND message_id <> '' AND returned_at = ''`

// unreturned reports whether there are such.
func (c *Conn) unreturned() (bool, error) {
	n, err := c.number(`SELECT EXISTS (SELECT 1 FROM signal_questions WHERE ` + unreturned + `)`)
	return n != 0, err
}

// returner sends answers back, and keeps what is in the way of that.
type returner struct {
	mu sync.Mutex // held while answers go back
	Trouble
}

// returnAnswers sends answers back, if there are any. What fails is tried again with the next run, and logged once.
func (b *returner) returnAnswers(ctx context.Context, r *Router) {
	back, ok := r.transports["person"].(Returning)
	if !ok {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	found := false
	err := r.read(ctx, func(c *Conn) (err error) {
		found, err = c.unreturned()
		return err
	})
	if err == nil && found {
		err = back.Return(ctx)
	}
	if ctx.Err() == nil && b.Changed(err) && err != nil {
		r.log.Error("answers of the user could not be sent back; each run tries again", "error", err)
	}
}

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
