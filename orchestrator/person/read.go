package person

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"mailroom/orchestrator"
	"mailroom/tracing"
)

// keepAfterReading is for how long an answer can be read again, in case the first time its bytes were lost on the way.
const keepAfterReading = 10 * time.Minute

// orphanAfter is how old a file must be that belongs to no question: Ask writes it before the question.
const orphanAfter = 10 * time.Minute

// Response is how a question stands.
type Response struct {
	orchestrator.Question
	Answered bool
	Text     string // what was answered: the text of the option, or what was written
	Option   int    // index of the option; -1 when a text was written
	Refused  string // why an answer was refused just now, which no device wrote that had read the question; "" when none was
}

// Read returns the answer to a question, and waits for it for up to wait when there is none. caller must be its asker; ""
// is the administrator. An answer that is not by a device that read the question is refused: the question is open again.
//
// An answer can be read for 10 minutes after it was read first; then its key is removed. Errors: not_found;
// permission_denied; conflict when the answer was read and its key is gone; unavailable when the key is missing otherwise.
func Read(ctx context.Context, r *orchestrator.Router, id, caller string, wait time.Duration) (Response, error) {
	response, err := look(ctx, r, id, caller, wait)
	if err == nil && response.Answered {
		err = r.AnswerRead(ctx, id)
	}
	if err != nil {
		return Response{}, err
	}
	return response, nil
}

// Look is Read for the administrator, without waiting and without noting that the answer was read: for who sends it on and
// notes that with it.
func Look(ctx context.Context, r *orchestrator.Router, id string) (Response, error) {
	return look(ctx, r, id, "", 0)
}

func look(ctx context.Context, r *orchestrator.Router, id, caller string, wait time.Duration) (Response, error) {
	k, err := openKeys(r, false)
	if err != nil {
		return Response{}, err
	}
	defer k.close()
	_ = sweep(ctx, r, k) // a file of another question is no reason; the daemon's log and the doctor tell of it
	q, err := r.Question(ctx, id)
	if err != nil {
		return Response{}, err
	}
	if caller != "" && caller != q.Asker {
		return Response{}, notAsker(id)
	}
	if q.Status == orchestrator.QuestionPending && wait > 0 {
		if q, err = r.WaitQuestion(ctx, id, wait); err != nil {
			return Response{}, err
		}
	}
	if q.Status != orchestrator.QuestionAnswered {
		return Response{Question: q}, nil
	}
	return k.answered(ctx, r, q, caller)
}

func notAsker(id string) error {
	return orchestrator.Errorf(orchestrator.PermissionDenied, "question %s was asked by another agent, who alone may read its answer", id)
}

// answered opens the answer to a question.
func (k *keys) answered(ctx context.Context, r *orchestrator.Router, q orchestrator.Question, caller string) (Response, error) {
	var secret reply
	err := k.read(repliesFolder, q.ID, &secret)
	switch {
	case errors.Is(err, fs.ErrNotExist) && q.ReadAt != "":
		e := orchestrator.Errorf(orchestrator.Conflict, "the answer was read at %s, and its key is gone since", q.ReadAt).
			WithHint("An answer can be read for 10 minutes. Ask again")
		e.Details = map[string]any{"answered": true, "read_at": q.ReadAt}
		return Response{}, e
	case errors.Is(err, fs.ErrNotExist):
		e := orchestrator.Errorf(orchestrator.Unavailable, "the question is answered, but the key to its answer is not in %s", k.path).
			WithHint("Read it on the machine on which it was asked, or ask again")
		e.Details = map[string]any{"answered": true}
		return Response{}, e
	case err != nil:
		return Response{}, err
	}
	if caller != "" && caller != secret.Asker { // the table says otherwise, but this file is what the asker left
		return Response{}, notAsker(q.ID)
	}
	text, option, err := secret.open(q.ID, q.Answer)
	if err != nil {
		return refuse(ctx, r, q, err.Error())
	}
	return Response{Question: q, Answered: true, Text: text, Option: option}, nil
}

// refuse opens a question again whose answer is none.
func refuse(ctx context.Context, r *orchestrator.Router, q orchestrator.Question, why string) (Response, error) {
	if err := r.RefuseAnswer(ctx, q.ID, q.Answer, why); err != nil {
		return Response{}, err
	}
	q, err := r.Question(ctx, q.ID)
	return Response{Question: q, Refused: why}, err
}

// Cancel takes a question back, and removes its key. by is the agent that asks for it; "" is the administrator. Errors:
// those of Router.CancelQuestion.
func Cancel(ctx context.Context, r *orchestrator.Router, id, by string) (orchestrator.Question, error) {
	q, err := r.CancelQuestion(ctx, id, by)
	if err == nil {
		_ = Sweep(ctx, r) // as in Read
	}
	return q, err
}

// Sweep removes the keys that are not needed any more: those of answers that were read 10 minutes ago, of questions that
// ended without one, and of questions that were never stored. Ask and Read do it too; the daemon does it for the rest.
func Sweep(ctx context.Context, r *orchestrator.Router) error {
	k, err := openKeys(r, false)
	if err != nil {
		return err
	}
	defer k.close()
	return sweep(ctx, r, k)
}

func sweep(ctx context.Context, r *orchestrator.Router, k *keys) error {
	names, err := k.names(repliesFolder)
	if err != nil {
		return err
	}
	var failures []error
	for _, name := range names {
		done, err := false, error(nil)
		switch {
		case plainID.MatchString(name):
			done, err = k.over(ctx, r, name)
		case strings.HasPrefix(name, draftPrefix):
			done, err = k.abandoned(name)
		}
		if err == nil && done {
			err = k.removeFile(filepath.Join(repliesFolder, name))
		}
		failures = append(failures, err)
	}
	return errors.Join(failures...)
}

// over reports whether the key of a question is not needed any more. One that was not encrypted has no key, and what is
// kept of it goes with its row.
func (k *keys) over(ctx context.Context, r *orchestrator.Router, id string) (bool, error) {
	q, err := r.Question(ctx, id)
	if orchestrator.CodeOf(err) == orchestrator.NotFound {
		made, perr := ulid.ParseStrict(id[2:])
		return perr != nil || r.Now().Sub(ulid.Time(made.Time())) >= orphanAfter, nil
	}
	if err != nil || q.Status == orchestrator.QuestionPending {
		return false, err
	}
	if q.Status != orchestrator.QuestionAnswered {
		return true, nil
	}
	if at, err := time.Parse(tracing.Layout, q.ReadAt); q.ReadAt == "" || err == nil && r.Now().Sub(at) < keepAfterReading {
		return false, nil
	}
	var secret reply
	err = k.read(repliesFolder, id, &secret)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // somebody else was faster
	}
	return secret.Identity != "", err
}

// abandoned reports whether a file that was being written is so old that its writer must be gone.
func (k *keys) abandoned(name string) (bool, error) {
	info, err := k.root.Lstat(filepath.Join(repliesFolder, name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && time.Since(info.ModTime()) >= orphanAfter, err
}
