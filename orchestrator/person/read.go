package person

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/questions"
)

// keepAfterReading is how long an answer can be read again, in case its bytes were lost the first time.
const keepAfterReading = 10 * time.Minute

// ErrKeyMissing is the cause of an error if the key to an answer is not on this machine and never will be, so a retry
// is useless. A key that exists but cannot be read now has other causes.
var ErrKeyMissing = errors.New("the key to the answer is missing")

// Response is the state of a question, with its answer.
type Response struct {
	questions.Question
	Answered bool
	Text     string // the text of the chosen option, or the text that was entered
	Comment  string // text entered in addition to the option; "" if none
	// Refused is why an answer was just rejected as not coming from a device that read the question; "" if none was.
	Refused string

	sealed bool  // the answer is from an approved device that had read the question
	asked  reply // the asker's record beside the table, without its keys
}

// Read returns the answer to a question. If there is none, it waits up to wait for one. caller must be the asker; ""
// is the administrator. An answer that is not from a device that read the question is rejected, and the question is
// open again.
//
// The asker can read an answer until 10 minutes after it was first read and, if a message asked the question,
// returned to the sender. Then the key is removed. A read by the administrator is recorded only for questions of the
// operator. Errors: not_found, also for the question of another agent; permission_denied if only the table names the
// caller as the asker; with the cause ErrKeyMissing: conflict if the answer was read or returned and its key is gone,
// and unavailable otherwise.
func Read(ctx context.Context, l *ledger.Ledger, id, caller string, wait time.Duration) (Response, error) {
	response, err := look(ctx, l, id, caller, wait)
	if caller == "" && response.Asker == orchestrator.Operator {
		caller = response.Asker // the administrator is the operator, too
	}
	if err == nil && response.Answered && caller != "" {
		err = questions.AnswerRead(ctx, l, id)
	}
	if err != nil {
		return Response{}, err
	}
	return response, nil
}

// Look returns the answer to a question for a caller that returns it to the message that asked. It does not wait, and
// does not record that the answer was read. If there is an answer, Asker and MessageID are those with which the
// question was asked. Error: permission_denied if the table contains different ones, because the answer would go to
// somebody else.
func Look(ctx context.Context, l *ledger.Ledger, id string) (Response, error) {
	response, err := look(ctx, l, id, "", 0)
	if err != nil || !response.Answered {
		return response, err
	}
	if response.asked.MessageID != response.MessageID || response.asked.Asker != response.Asker {
		return Response{},
			orchestrator.Errorf(orchestrator.PermissionDenied,
				"the asker or the message of question %s was changed in the database, so the answer was not sent", id).
				WithHint("Find out who changed the table signal_questions. To read the answer, the asker can run `mailroom signal get_response %s`", id)
	}
	return response, nil
}

func look(ctx context.Context, l *ledger.Ledger, id, caller string, wait time.Duration) (Response, error) {
	if err := Here(ctx, l); err != nil {
		return Response{}, err
	}
	k, err := openKeys(l, false)
	if err != nil {
		return Response{}, err
	}
	defer k.close()
	q, err := questions.Own(ctx, l, id, caller)
	if err != nil {
		return Response{}, err
	}
	if q.Status == questions.Pending && wait > 0 {
		if q, err = questions.Wait(ctx, l, id, wait); err != nil {
			return Response{}, err
		}
	}
	k.tidy(l, &q)
	if q.Status != questions.Answered {
		return Response{Question: q}, nil
	}
	return k.answered(ctx, l, q, caller)
}

// answered opens the answer to a question.
func (k *keys) answered(ctx context.Context, l *ledger.Ledger, q questions.Question, caller string) (Response, error) {
	secret, err := k.reply(q.ID)
	if errors.Is(err, fs.ErrNotExist) {
		return Response{}, k.keyMissing(&q)
	}
	if err != nil {
		return Response{}, err
	}
	if caller != "" && caller != secret.Asker { // the table can be changed, but only the asker writes this file
		return Response{},
			orchestrator.Errorf(orchestrator.PermissionDenied,
				"question %s was asked by another agent, and only that agent can read the answer", q.ID)
	}
	text, comment, err := secret.open(q.ID, q.Answer)
	if err != nil {
		return k.refuse(ctx, l, q, secret, err.Error())
	}
	return Response{Question: q, Answered: true, Text: text, Comment: comment, sealed: secret.Identity != "",
		asked: reply{Asker: secret.Asker, MessageID: secret.MessageID}}, nil
}

// keyMissing returns the error for an answer whose key is not here, or not here anymore.
func (k *keys) keyMissing(q *questions.Question) error {
	e := &orchestrator.Error{Code: orchestrator.Conflict, Err: ErrKeyMissing, Details: map[string]any{"answered": true}}
	switch {
	case q.ReadAt != "":
		e.Message, e.Hint = "the answer was read at "+q.ReadAt+" and cannot be read again",
			"An answer can be read for 10 minutes after it is first read. Ask the question again"
		e.Details["read_at"] = q.ReadAt
	case q.ReturnedAt != "":
		e.Message = "the answer was sent as a message at " + q.ReturnedAt + " and cannot be read again"
		e.Hint = "Read the messages of " + orchestrator.Clip(q.Asker)
		e.Details["returned_at"] = q.ReturnedAt
	default:
		e.Code, e.Message = orchestrator.Unavailable, "the question was answered, but "+k.path+
			" does not contain the key to the answer"
		e.Hint = "Read the answer on the machine where the question was asked, or ask again"
	}
	return e
}

// reply reads the asker's record beside the table for a question. Error: fs.ErrNotExist if there is none. Unencrypted
// questions have a record, too. If only the table recorded that, anyone who can write to it could end a question, so
// that its key is removed, and then answer it unencrypted.
func (k *keys) reply(id string) (secret reply, err error) {
	if err = k.read(repliesFolder, id, &secret); errors.Is(err, fs.ErrNotExist) {
		err = k.read(clearFolder, id, &secret)
	}
	return secret, err
}

// refuse reopens a question whose answer is not genuine. It first stores the time, so that no answer given earlier
// counts. The time is taken while the rejected answer is still in the table.
func (k *keys) refuse(ctx context.Context, l *ledger.Ledger, q questions.Question, secret reply, why string) (Response,
	error) {
	at := orchestrator.Stamp(l.Now())
	now, err := questions.Get(ctx, l, q.ID)
	if err != nil {
		return Response{}, err
	}
	if now.Answer == q.Answer && now.Status == q.Status {
		if secret.Identity != "" {
			secret.RefusedAt = max(secret.RefusedAt, at)
			err = k.write(secret.folder(), q.ID, secret)
		}
		if err == nil {
			err = questions.RefuseAnswer(ctx, l, q.ID, q.Answer, why)
		}
		if err == nil {
			now, err = questions.Get(ctx, l, q.ID)
		}
	}
	return Response{Question: now, Refused: why}, err
}

// Cancel withdraws a question and removes its key. by is the agent that requests it; "" is the administrator. Errors:
// those of questions.Cancel.
func Cancel(ctx context.Context, l *ledger.Ledger, id, by string) (questions.Question, error) {
	q, err := questions.Cancel(ctx, l, id, by)
	if err != nil {
		return q, err
	}
	if k, err := openKeys(l, false); err == nil { // otherwise the daemon's log and the doctor report it
		k.tidy(l, &q)
		k.close()
	}
	return q, nil
}
