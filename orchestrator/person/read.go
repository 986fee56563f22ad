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

// keepAfterReading is for how long an answer can be read again, in case the first time its bytes were lost on the way.
const keepAfterReading = 10 * time.Minute

// ErrKeyMissing is the cause of an error when the key to an answer is not on this machine, and will not be: trying
// again is of no use. A key that is there and cannot be read now has other causes.
var ErrKeyMissing = errors.New("the key to the answer is missing")

// Response is how a question stands.
type Response struct {
	questions.Question
	Answered bool
	Text     string // what was answered: the text of the option, or what was written
	Comment  string // what was written beside the option, "" when nothing was
	// why an answer was refused just now, which no device wrote that had read the question; "" when none was
	Refused string

	sealed bool  // a device wrote the answer that was approved, and had read the question
	asked  reply // what the asker left beside the table; its keys are cleared
}

// Read returns the answer to a question, and waits for it for up to wait when there is none. caller must be its asker;
// "" is the administrator. An answer that is not by a device that read the question is refused: the question is open
// again.
//
// Its asker can read an answer for 10 minutes after it was read first, and sent back where a message asked; then its
// key is removed. The administrator's reading is noted of what the operator asked, and of nothing else. Errors:
// not_found, also for the question of another; permission_denied when only the table says that it is the caller's; with
// the cause ErrKeyMissing conflict, when the answer was read or sent back and its key is gone, and unavailable
// otherwise.
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

// Look returns the answer to a question as Read does, for whoever sends it back to the message that asked. It does not
// wait, and does not note that the answer was read. Of an answer that it returns, Asker and MessageID are those that
// the question was asked with, whatever the table says since. Error: permission_denied when the table says something
// else, so that the answer would go to somebody else.
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
	if caller != "" && caller != secret.Asker { // the table says otherwise, but this file is what the asker left
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

// keyMissing returns the error of an answer that cannot be opened here any more, or never could be.
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

// reply reads what the asker left beside the table for a question. Error: fs.ErrNotExist if there is nothing. That a
// question was not encrypted is noted there, too: by the table alone, whoever writes it could end a question, so that
// its key is removed, and then answer it in clear.
func (k *keys) reply(id string) (secret reply, err error) {
	if err = k.read(repliesFolder, id, &secret); errors.Is(err, fs.ErrNotExist) {
		err = k.read(clearFolder, id, &secret)
	}
	return secret, err
}

// refuse opens a question again whose answer is not genuine. First it keeps when that was, so that no answer counts
// which was given before: the time is taken while the refused answer still stands there.
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

// Cancel takes a question back, and removes its key. by is the agent that asks for it; "" is the administrator. Errors:
// those of questions.Cancel.
func Cancel(ctx context.Context, l *ledger.Ledger, id, by string) (questions.Question, error) {
	q, err := questions.Cancel(ctx, l, id, by)
	if err != nil {
		return q, err
	}
	if k, err := openKeys(l, false); err == nil { // otherwise the daemon's log and the doctor tell of it
		k.tidy(l, &q)
		k.close()
	}
	return q, nil
}
