package questions

import (
	"context"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store"
	"mailroom/tracing"
)

// Answer stores the answer of a device to a question. The first answer counts. Only the asker can read the answer to
// an encrypted question, so the asker must check whether it is genuine. Errors: not_found; permission_denied for a
// device that is not active; invalid_params for an answer that does not fit the question; conflict, with the
// question's status in the error's Details, if the question is not pending.
func Answer(ctx context.Context, l *ledger.Ledger, id, device, answer string) (q Question, err error) {
	if len(answer) > maxAnswerBytes || answer == "" {
		return q, orchestrator.Errorf(orchestrator.InvalidParams, "the answer must have 1 to %[2]d bytes, but has %[1]d",
			len(answer), maxAnswerBytes)
	}
	err = l.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		state, _, err := t.Text(`SELECT state FROM signal_devices WHERE device_id = ?`, device)
		if err != nil {
			return err
		}
		if state != DeviceActive {
			return orchestrator.Errorf(orchestrator.PermissionDenied, "the device %s is not active", device)
		}
		if q, err = mustQuestion(t, id); err != nil {
			return err
		}
		if q.Status != Pending {
			return notPending(&q)
		}
		if !q.Encrypted {
			if err := checkClearAnswer(&q, answer); err != nil {
				return err
			}
		}
		q.Answer, q.AnsweredBy = answer, device
		return endQuestion(t, &q, Answered, device, "by "+device)
	})
	return q, err
}

// notPending returns the error for a question that has ended.
func notPending(q *Question) error {
	e := orchestrator.Errorf(orchestrator.Conflict, "the question is already %s (since %s)", q.Status, q.EndedAt)
	e.Details = map[string]any{"status": string(q.Status)}
	return e
}

// checkClearAnswer rejects an answer that does not fit an unencrypted question.
func checkClearAnswer(q *Question, answer string) error {
	var asked struct {
		Options []string `json:"options"`
	}
	var said struct {
		Option *int    `json:"option"`
		Text   *string `json:"text"`
	}
	if err := json.Unmarshal([]byte(q.Body), &asked); err != nil {
		return orchestrator.Errorf(orchestrator.InvalidParams, "cannot read the body of the question")
	}
	if err := json.Unmarshal([]byte(answer), &said); err != nil || said.Option == nil && said.Text == nil {
		return orchestrator.Errorf(orchestrator.InvalidParams, "an answer must have an option, a text, or both")
	}
	if err := orchestrator.CheckPairs("answer", []byte(answer)); err != nil {
		return err
	}
	switch {
	case len(asked.Options) > 0 && (said.Option == nil || *said.Option < 0 || *said.Option >= len(asked.Options)):
		return orchestrator.Errorf(orchestrator.InvalidParams, "option: must be 0 to %d",
			len(asked.Options)-1)
	case len(asked.Options) > 0 && said.Text == nil:
		return nil
	case len(asked.Options) == 0 && said.Option != nil:
		return orchestrator.Errorf(orchestrator.InvalidParams, "option: the question has no options")
	}
	return CheckAnswerText(*said.Text)
}

// CheckAnswerText checks a text answer: it must have 1 to 2,000 characters, and not only spaces. Error:
// invalid_params, which does not repeat the text.
func CheckAnswerText(text string) error {
	if strings.TrimSpace(text) == "" || utf8.RuneCountInString(text) > 2000 {
		return orchestrator.Errorf(orchestrator.InvalidParams,
			"text: must have 1 to 2000 characters, at least one of which is not a space")
	}
	return nil
}

// Cancel withdraws a question. by is the agent that requests it; "" is the administrator. Errors: not_found, also for
// the question of another agent; conflict, with the status in the error's Details, if the question is not pending.
func Cancel(ctx context.Context, l *ledger.Ledger, id, by string) (q Question, err error) {
	err = l.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		if q, err = mustQuestion(t, id); err != nil {
			return err
		}
		if !asked(t.Config(), &q, by) {
			q = Question{}
			return noQuestion(id)
		}
		if q.Status != Pending {
			return notPending(&q)
		}
		return endQuestion(t, &q, Cancelled, "", "")
	})
	return q, err
}

// Wait waits until a question is no longer pending or the timeout ends, and returns the question in its state at that
// time. Errors: not_found; context.Cause(ctx) if ctx ended.
func Wait(ctx context.Context, l *ledger.Ledger, id string, timeout time.Duration) (Question, error) {
	deadline := l.Now().Add(timeout)
	rings, stop, err := l.Store.Bell().Listen(ctx, id)
	if err != nil {
		return Question{}, err
	}
	defer stop()
	for {
		q, err := Get(ctx, l, id)
		left := deadline.Sub(l.Now())
		if err != nil || q.Status != Pending || left <= 0 {
			return q, err
		}
		if expires := orchestrator.ParseStamp(q.ExpiresAt).Sub(l.Now()); expires < left {
			left = max(expires, time.Millisecond)
		}
		select {
		case <-rings:
		case <-time.After(min(left, orchestrator.SlowPoll)):
		case <-ctx.Done():
			return q, context.Cause(ctx)
		}
	}
}

// AnswerRead records when the asker first read the answer to a question. Errors: not_found; conflict if there is no
// answer.
func AnswerRead(ctx context.Context, l *ledger.Ledger, id string) error {
	return l.Write(ctx, store.Shared, func(t *ledger.Tx) error {
		q, err := mustQuestion(t, id)
		if err != nil {
			return err
		}
		if q.Status != Answered {
			return notPending(&q)
		}
		if q.ReadAt != "" {
			return nil
		}
		n, err := t.Exec(`UPDATE signal_questions SET read_at = ? WHERE question_id = ? AND read_at = ''`, t.Now, q.ID)
		if err != nil || n == 0 {
			return err
		}
		return noteSignal(t, q.ID, tracing.Read, string(q.Status), string(q.Status), "")
	})
}

// RefuseAnswer removes an answer that the asker found to be forged. The question becomes pending and is pushed again,
// or expires if its time is over. answer is the forged answer; another answer that arrived in the meantime is left
// unchanged. Error: not_found.
func RefuseAnswer(ctx context.Context, l *ledger.Ledger, id, answer, why string) error {
	return l.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		q, err := mustQuestion(t, id)
		if err != nil || q.Status != Answered || q.Answer != answer || q.ReadAt != "" || q.ReturnedAt != "" {
			return err
		}
		if err := t.Run(`UPDATE signal_questions SET status = 'pending', ended_at = '', answer = '', answered_by = ''
			WHERE question_id = ?`, id); err != nil {
			return err
		}
		if err := noteSignal(t, id, tracing.Refused, string(q.Status), string(Pending), why); err != nil {
			return err
		}
		q.Status, q.EndedAt, q.Answer, q.AnsweredBy = Pending, "", "", ""
		t.Wake(id)
		if q.ExpiresAt <= t.ClockText {
			return endQuestion(t, &q, Expired, "", "")
		}
		return pushAgain(t, &q)
	})
}

// expiredQuestions bounds the questions that one transaction expires.
const expiredQuestions = 100

// expireQuestions ends questions whose time is over. It skips rows whose ID is not text, because they cannot be
// addressed.
func expireQuestions(t *ledger.Tx) (more bool, err error) {
	list, err := questionsBy(t.Conn,
		`status = 'pending' AND expires_at <= ? AND question_id < x'' ORDER BY expires_at LIMIT +?`, t.ClockText,
		expiredQuestions)
	if err != nil {
		return false, err
	}
	for i := range list {
		if err := endQuestion(t, &list[i], Expired, "", ""); err != nil {
			return false, err
		}
	}
	return len(list) == expiredQuestions, nil
}

// withdrawQuestions cancels the open questions of a removed agent, and deletes answers that it has not read or that
// were not returned to it, because they are for nobody else.
func withdrawQuestions(t *ledger.Tx, name string) error {
	open, err := questionsBy(t.Conn, `asker = ? AND status = 'pending'`, name)
	if err != nil {
		return err
	}
	for i := range open {
		if err := endQuestion(t, &open[i], Cancelled, "", "the agent "+name+" was removed"); err != nil {
			return err
		}
	}
	answered, err := t.Texts(`SELECT question_id FROM signal_questions WHERE asker = ? AND status = 'answered'
		AND (read_at = '' OR message_id <> '' AND returned_at = '')`, name)
	if err != nil {
		return err
	}
	for _, id := range answered {
		if err := t.Run(`UPDATE signal_questions SET status = 'cancelled', answer = '' WHERE question_id = ?`,
			id); err != nil {
			return err
		}
		if err := noteSignal(t, id, tracing.Cancelled, string(Answered), string(Cancelled),
			"the agent "+name+" was removed before it read the answer"); err != nil {
			return err
		}
	}
	return nil
}
