package person_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"mailroom/orchestrator/person"
	"mailroom/orchestrator/questions"
)

// TestOldAndLateAnswers checks that an answer does not count if another was rejected after it was given, or if it was
// given after the question's end, whatever end the table contains.
func TestOldAndLateAnswers(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	p := o.phone()
	at := func(q questions.Question, option int, when time.Time) string {
		s := p.answer(q, option)
		s.fields["time"] = when.UTC().Format("2006-01-02T15:04:05.000Z")
		return s.sign().seal()
	}
	refused := func(q questions.Question, why string) {
		t.Helper()
		if r, err := o.get(q.ID); err != nil || r.Refused != why || r.Status != questions.Pending {
			t.Fatalf("read %+v, %v", r, err)
		}
	}
	asked := o.ask("Yes", "No").Question
	first := at(asked, 0, o.now())
	o.clock.Advance(time.Minute)
	o.forge(asked.ID, "garbage")
	refused(asked, "the content is not valid base64")
	o.clock.Advance(time.Minute)
	second := at(asked, 1, o.now())
	o.forge(asked.ID, first)
	refused(asked, "the answer was given before another answer was refused")
	o.forge(asked.ID, second) // at the same moment
	o.answered(asked.ID, "No")

	asked = o.ask("Yes", "No").Question
	o.exec(`UPDATE signal_questions SET expires_at = '2027-01-01T00:00:00.000Z' WHERE question_id = ?`, asked.ID)
	ends := o.now().Add(person.DefaultTTL)
	o.clock.Advance(30 * 24 * time.Hour)
	o.forge(asked.ID, at(asked, 0, ends.Add(11*time.Minute)))
	refused(asked, "the answer was given after the question expired")
	asked = o.ask("Yes", "No").Question
	ends = o.now().Add(person.DefaultTTL)
	o.clock.Advance(30 * 24 * time.Hour)
	o.forge(asked.ID, at(asked, 0, ends)) // read long after it was given
	o.answered(asked.ID, "Yes")
}

// TestKeyIsSweptTooEarly checks that a key that is removed before its question is in the table is written again.
func TestKeyIsSweptTooEarly(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	p := o.phone()
	gone := 0
	o.whenAsked(func() {
		for _, name := range o.files("replies") { // the row is written after this
			if err := os.Remove(filepath.Join(o.Ledger.FilePrefix()+"-signal", "replies", name)); err != nil {
				t.Error(err)
			}
			gone++
		}
	})
	asked := o.ask("Yes", "No")
	o.whenAsked(nil)
	if gone != 1 {
		t.Fatalf("%d keys were removed", gone)
	}
	o.put(asked.ID, p.id, p.answer(asked.Question, 0).seal())
	o.answered(asked.ID, "Yes")
}
