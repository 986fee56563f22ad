package orchestrator

import (
	"context"
	"time"

	"mailroom/orchestrator/store"
	"mailroom/tracing"
)

// CancelQuestion takes a question back. by is the agent that asks for it; "" is the administrator. Errors: not_found, also for
// the question of another; conflict, with the status among its details, when it is not pending.
func (r *Router) CancelQuestion(ctx context.Context, id, by string) (q Question, err error) {
	err = r.write(ctx, func(t *tx) error {
		if q, err = t.question(id); err != nil {
			return err
		}
		conf, err := t.config()
		if err != nil {
			return err
		}
		if !conf.asked(&q, by) {
			q = Question{}
			return noQuestion(id)
		}
		if q.Status != QuestionPending {
			return notPending(&q)
		}
		return t.endQuestion(&q, QuestionCancelled, "", "")
	})
	return q, err
}

// WaitQuestion waits until a question is not pending any more, or until the timeout ends, and returns it. Errors:
// not_found; context.Cause(ctx) when ctx ended.
func (r *Router) WaitQuestion(ctx context.Context, id string, timeout time.Duration) (Question, error) {
	deadline := r.Now().Add(timeout)
	rings, stop, err := r.bell.Listen(ctx, id)
	if err != nil {
		return Question{}, err
	}
	defer stop()
	for {
		q, err := r.Question(ctx, id)
		left := deadline.Sub(r.Now())
		if err != nil || q.Status != QuestionPending || left <= 0 {
			return q, err
		}
		if expires := parseStamp(q.ExpiresAt).Sub(r.Now()); expires < left {
			left = max(expires, time.Millisecond)
		}
		timer := time.NewTimer(min(left, slowPoll))
		select {
		case <-rings:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return q, context.Cause(ctx)
		}
		timer.Stop()
	}
}

// AnswerRead notes that the asker has read the answer of a question; the first time counts. Errors: not_found; conflict when
// it is not answered.
func (r *Router) AnswerRead(ctx context.Context, id string) error {
	return r.write(ctx, func(t *tx) error {
		q, err := t.question(id)
		if err != nil {
			return err
		}
		if q.Status != QuestionAnswered {
			return notPending(&q)
		}
		return t.answerRead(q)
	})
}

func (t *tx) answerRead(q Question) error {
	if q.ReadAt != "" {
		return nil
	}
	if _, err := t.Exec(`UPDATE signal_questions SET read_at = ? WHERE question_id = ?`, t.now, q.ID); err != nil {
		return err
	}
	return t.noteSignal(q.ID, tracing.Read, string(q.Status), string(q.Status), "")
}

// RefuseAnswer takes an answer that its asker found to be forged out of a question, which is pending again, and pushed
// again, unless its time has passed. answer is the one that was refused: another that has come meanwhile stays. Errors:
// not_found.
func (r *Router) RefuseAnswer(ctx context.Context, id, answer, why string) error {
	return r.write(ctx, func(t *tx) error {
		q, err := t.question(id)
		if err != nil || q.Status != QuestionAnswered || q.Answer != answer || q.ReadAt != "" || q.ReturnedAt != "" {
			return err
		}
		if _, err := t.Exec(`UPDATE signal_questions SET status = 'pending', ended_at = '', answer = '', answered_by = '' WHERE question_id = ?`, id); err != nil {
			return err
		}
		if err := t.noteSignal(id, tracing.Refused, string(q.Status), string(QuestionPending), why); err != nil {
			return err
		}
		q.Status, q.EndedAt, q.Answer, q.AnsweredBy = QuestionPending, "", "", ""
		t.ring.add([]string{id})
		if q.ExpiresAt <= t.clockText {
			return t.endQuestion(&q, QuestionExpired, "", "")
		}
		return t.pushAgain(&q)
	})
}

// expiredQuestions bounds the questions that one transaction expires.
const expiredQuestions = 100

// expireQuestions ends questions whose time has passed. One whose id is no text cannot be named, and is passed over.
func (t *tx) expireQuestions() (more bool, err error) {
	var list []Question
	err = t.query(`SELECT `+questionColumns+` FROM signal_questions WHERE status = 'pending' AND expires_at <= ? AND question_id < x'' ORDER BY expires_at LIMIT +?`,
		func(row store.Row) error {
			list = append(list, scanQuestion(row))
			return nil
		}, t.clockText, expiredQuestions)
	if err != nil {
		return false, err
	}
	for i := range list {
		if err := t.endQuestion(&list[i], QuestionExpired, "", ""); err != nil {
			return false, err
		}
	}
	return len(list) == expiredQuestions, nil
}

// withdrawQuestions takes back what a name has asked the user and nobody has answered, and answers that it has not read, or that
// have not gone back to it: they are for nobody else.
func (t *tx) withdrawQuestions(name string) error {
	var open []Question
	err := t.query(`SELECT `+questionColumns+` FROM signal_questions WHERE asker = ? AND status = 'pending'`, func(row store.Row) error {
		open = append(open, scanQuestion(row))
		return nil
	}, name)
	if err != nil {
		return err
	}
	for i := range open {
		if err := t.endQuestion(&open[i], QuestionCancelled, "", "the agent "+name+" was removed"); err != nil {
			return err
		}
	}
	answered, err := t.texts(`SELECT question_id FROM signal_questions WHERE asker = ? AND status = 'answered'
		AND (read_at = '' OR message_id <> '' AND returned_at = '')`, name)
	if err != nil {
		return err
	}
	for _, id := range answered {
		if _, err := t.Exec(`UPDATE signal_questions SET status = 'cancelled', answer = '' WHERE question_id = ?`, id); err != nil {
			return err
		}
		if err := t.noteSignal(id, tracing.Cancelled, string(QuestionAnswered), string(QuestionCancelled), "the agent "+name+" was removed before it read the answer"); err != nil {
			return err
		}
	}
	return nil
}
