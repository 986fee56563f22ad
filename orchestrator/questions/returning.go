package questions

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/teams"
	"mailroom/tracing"
)

// Unreturned returns the answered questions that came from a message and whose answers were not yet returned to its
// sender. It returns at most 100, ordered by ID, that follow after, which is the last ID of the previous call, or ""
// at first.
func Unreturned(ctx context.Context, l *ledger.Ledger, after string) ([]Question, error) {
	return ledger.ReadValue(ctx, l, func(c *store.Conn) ([]Question, error) {
		return questionsBy(c, unreturned+` AND question_id > ? AND question_id < x'' ORDER BY question_id LIMIT 100`,
			after)
	})
}

// unreturned selects the answered questions of messages whose senders have not been sent the answer yet.
const unreturned = `status = 'answered' AND message_id <> '' AND returned_at = ''`

// anyUnreturned reports whether an answer waits to be returned.
func anyUnreturned(c *store.Conn) (bool, error) {
	n, err := c.Number(`SELECT EXISTS (SELECT 1 FROM signal_questions WHERE ` + unreturned + `)`)
	return n != 0, err
}

// returner returns answers to the askers, and remembers the last error.
type returner struct {
	mu sync.Mutex // held while answers are returned
	orchestrator.Trouble
}

// returnAnswers returns answers to the askers, if there are any. Failures are retried with the next run, and logged
// once.
func (b *returner) returnAnswers(ctx context.Context, l *ledger.Ledger) {
	back, ok := l.Transports["person"].(orchestrator.Returning)
	if !ok {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	found, err := ledger.ReadValue(ctx, l, anyUnreturned)
	if err == nil && found {
		err = back.Return(ctx)
	}
	if ctx.Err() == nil && b.Changed(err) && err != nil {
		l.Log.Error("cannot send the user's answers to the asking agents; Mailroom tries again at the next run", "error", err)
	}
}

// UserReply is the answer to a question, as it is returned to the sender of the message that asked.
type UserReply struct {
	Question string             // its ID
	Draft    orchestrator.Draft // the answer; its sender is the user
	Team     *teams.Reply       // set if it answers a request of the team vocabulary; its draft is Draft
}

// ReplyAsUser sends the answer to a question to the agent whose message asked it, and records that, in one
// transaction. It does nothing if there is no answer or it was already returned. If it cannot be sent, because the
// agent is gone or its request was withdrawn, ReplyAsUser records that in the trace, and the asker gets a report.
// Errors: not_found; those of messages.Send.
func ReplyAsUser(ctx context.Context, l *ledger.Ledger, back UserReply) error {
	draft := back.Draft
	draft.Sender = orchestrator.User
	var err error
	if back.Team != nil {
		draft, err = teams.CheckProtocol(draft)
	} else {
		draft, err = ledger.Check(draft)
	}
	if err != nil {
		return err
	}
	return l.Write(ctx, store.Alone, func(t *ledger.Tx) error {
		t.AsUser = true
		defer func() { t.AsUser = false }()
		q, err := mustQuestion(t, back.Question)
		if err != nil || q.Status != Answered || q.ReturnedAt != "" {
			return err
		}
		failure, err := reply(t, &back, &draft)
		if err == nil && failure != nil &&
			!slices.Contains([]orchestrator.Code{orchestrator.Conflict, orchestrator.NotFound,
				orchestrator.InvalidParams, orchestrator.UnknownRecipient, orchestrator.Unavailable},
				orchestrator.CodeOf(failure)) {
			err = failure
		}
		if err != nil {
			return err
		}
		return answerReturned(t, &q, failure)
	})
}

// reply sends an answer of the user. If the question was a team request that is not open to the user anymore, the
// asker gets a plain message. failure is why the answer was not sent.
func reply(t *ledger.Tx, back *UserReply, draft *orchestrator.Draft) (failure, err error) {
	if back.Team != nil {
		failure, err = t.Savepoint(func() error {
			answer := *back.Team
			answer.Draft = *draft
			_, err := teams.AnswerIn(t, answer)
			return err
		})
		if err != nil ||
			!slices.Contains([]orchestrator.Code{orchestrator.NotFound, orchestrator.PermissionDenied,
				orchestrator.InvalidParams}, orchestrator.CodeOf(failure)) {
			return failure, err
		}
	}
	return t.Savepoint(func() error {
		out, err := messages.SendIn(t, draft)
		return cmp.Or(err, out.Refused)
	})
}

// answerReturned records that an answer was returned, or why it never will be.
func answerReturned(t *ledger.Tx, q *Question, failure error) error {
	if err := t.Run(`UPDATE signal_questions SET returned_at = ? WHERE question_id = ?`, t.Now, q.ID); err != nil {
		return err
	}
	if failure != nil {
		report, err := errorReport(q, orchestrator.CodeOf(failure),
			orchestrator.User+" has answered, but the answer could not be sent: "+failure.Error())
		if err != nil {
			return err
		}
		if err := t.Tell(&report); err != nil {
			return err
		}
		t.AfterCommit(func() {
			t.Ledger.Log.Warn("cannot send the user's answer to the asking agent", "question", q.ID, "error",
				failure)
		})
		return noteSignal(t, q.ID, tracing.Failed, string(q.Status), string(q.Status),
			"the answer could not be sent: "+failure.Error())
	}
	return noteSignal(t, q.ID, tracing.Delivered, string(q.Status), string(q.Status), "the answer was sent to the asking agent")
}
