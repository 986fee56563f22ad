package orchestratortest

import (
	"context"
	"errors"
	"strings"
	"testing"

	"mailroom/orchestrator"
)

// recoveryTests are for transports that can determine the outcome of an attempt that never reported a result.
var recoveryTests = []struct {
	name string
	run  func(t *testing.T, f *office)
}{
	{"LeaseLost", deliversNothingWithoutLease},
	{"MarkFails", deliversNothingUnmarked},
	{"RecoverDelivered", findsWhatWasDelivered},
	{"RecoverUnwritten", deliversOnceAfterDeathInMark},
	{"RecoverTorn", deliversOnceAfterTear},
	{"RecoverAmongOthers", tellsMessagesApart},
	{"RecoverBlocked", recoveryGivesUpWhenBlocked},
	{"StrangeNote", refusesStrangeNotes},
}

// recover calls Recover for one message, with the note that Mark stored last.
func (f *office) recover(t *testing.T, ctx context.Context, m orchestrator.Message) (bool, error) {
	t.Helper()
	f.mu.Lock()
	note, marked := f.notes[m.ID]
	f.mu.Unlock()
	if !marked {
		t.Fatalf("%s carries no mark: a transport that can recover marks what it delivers", m.ID)
	}
	m.Mark = note
	m.Crashes, m.RetryCount = 1, m.RetryCount+1 // the row has changed since
	a := f.attempt(m)
	a.Mark = nil // a recovery writes no notes
	return f.Transport.(orchestrator.Recoverer).Recover(ctx, a)
}

// mustRecover calls Recover for one message and checks the result.
func (f *office) mustRecover(t *testing.T, m orchestrator.Message, want bool) {
	t.Helper()
	if got, err := f.recover(t, t.Context(), m); got != want || err != nil {
		t.Fatalf("Recover of %s: %v, %v; want %v", m.ID, got, err, want)
	}
}

// finish handles the messages of an attempt that never reported a result, as the engine does.
func (f *office) finish(t *testing.T, ms ...orchestrator.Message) {
	t.Helper()
	for _, m := range ms {
		delivered, err := f.recover(t, t.Context(), m)
		if err != nil {
			t.Fatalf("Recover of %s: %v", m.ID, err)
		}
		if !delivered {
			f.mustDeliver(t, m)
		}
	}
}

// dieInMark makes an attempt whose process ends as soon as its note is stored. Resources that the transport holds are
// released, as the system would do.
func (f *office) dieInMark(ms ...orchestrator.Message) {
	f.die = true
	defer func() {
		f.die = false
		if cause := recover(); cause != nil && cause != (death{}) {
			panic(cause)
		}
	}()
	f.Transport.Deliver(context.Background(), f.attempt(ms...))
}

func deliversNothingWithoutLease(t *testing.T, f *office) {
	ms := numbered("m", min(3, f.Transport.MaxBatch()))
	f.lost = true
	for i, err := range f.deliver(t, t.Context(), ms...) {
		if !errors.Is(err, orchestrator.ErrLeaseLost) {
			t.Errorf("%s: %v; want ErrLeaseLost", ms[i].ID, err)
		}
	}
	f.mustArrive(t)
	f.lost = false
	f.mustDeliver(t, ms...)
	f.mustArrive(t, ms...)
}

func deliversNothingUnmarked(t *testing.T, f *office) {
	m := message("m", `1`)
	full := errors.New("disk full")
	a := f.attempt(m)
	a.Mark = func(context.Context, string) error { return full }
	if errs := f.Transport.Deliver(t.Context(), a); len(errs) != 1 || !errors.Is(errs[0], full) {
		t.Errorf("Deliver: %v; want the error of Mark", errs)
	}
	f.mustArrive(t)

	// The context ends as soon as the note is stored.
	ctx, cancel := context.WithCancel(t.Context())
	a = f.attempt(m)
	mark := a.Mark
	a.Mark = func(ctx context.Context, note string) error {
		cancel()
		return mark(ctx, note)
	}
	if errs := f.Transport.Deliver(ctx, a); len(errs) != 1 {
		t.Fatalf("Deliver: %v", errs)
	} else if errs[0] == nil {
		f.mustArrive(t, m)
		return
	}
	f.mustDeliver(t, message("other", `2`))
	f.finish(t, m)
	f.mustArrive(t, message("other", `2`), m)
}

func findsWhatWasDelivered(t *testing.T, f *office) {
	before := numbered("before", 2)
	for _, m := range before {
		f.mustDeliver(t, m)
	}
	ms := numbered("m", min(5, f.Transport.MaxBatch()))
	f.mustDeliver(t, ms...)
	for _, m := range ms {
		f.mustRecover(t, m, true)
	}
	after := message("after", `3`)
	f.mustDeliver(t, after)
	for _, m := range ms {
		f.mustRecover(t, m, true) // for every call, and regardless of later messages
	}
	f.mustArrive(t, append(append(before, ms...), after)...)
}

func deliversOnceAfterDeathInMark(t *testing.T, f *office) {
	ms := numbered("m", min(3, f.Transport.MaxBatch()))
	f.dieInMark(ms...)
	f.finish(t, ms...)
	f.mustArrive(t, ms...)

	next := numbered("n", min(3, f.Transport.MaxBatch()))
	f.dieInMark(next...)
	between := message("between", `2`)
	f.mustDeliver(t, between)
	f.finish(t, next...)
	got := map[string]int{}
	for _, a := range f.Arrived(t) {
		got[a.ID]++
	}
	for _, m := range append(append(ms, next...), between) {
		if got[m.ID] != 1 {
			t.Errorf("%s arrived %d times", m.ID, got[m.ID])
		}
	}
}

func deliversOnceAfterTear(t *testing.T, f *office) {
	if f.Tear == nil {
		return
	}
	first, second := message("first", `1`), message("second", `2`)
	f.mustDeliver(t, first)
	f.dieInMark(second)
	f.Tear(t)
	f.mustRecover(t, second, false)
	f.Tear(t) // the next attempt was killed too
	f.mustDeliver(t, second)
	f.mustRecover(t, second, true)
	f.mustArrive(t, first, second)
}

// tellsMessagesApart calls Recover for messages that did not arrive, among others with similar IDs and payloads.
func tellsMessagesApart(t *testing.T, f *office) {
	ids := []string{
		"a", "A", "a ", "aa", `a"`, `"a"`, `a\`, "a/b", "a,b", "ä", "a\u0308", "a\u2028b", "a\nb", "<a>", "%61", "*",
		"..",
		strings.Repeat("a", 128),
	}
	f.mustDeliver(t, message("seed", `0`))
	for i, id := range ids {
		missing := message(id, `1`)
		f.dieInMark(missing)
		look := message("look-"+strings.Repeat("x", i+1), `{"message_id":"a","x":"`+strings.Repeat("a", i)+`"}`)
		f.mustDeliver(t, look)
		f.finish(t, missing)
		f.mustRecover(t, missing, true)
		f.mustRecover(t, look, true)
	}
	got := map[string]int{}
	for _, a := range f.Arrived(t) {
		got[a.ID]++
	}
	for _, id := range ids {
		if got[id] != 1 {
			t.Errorf("%q arrived %d times", id, got[id])
		}
	}
}

func refusesStrangeNotes(t *testing.T, f *office) {
	m := message("m", `1`)
	f.mustDeliver(t, m)
	for _, note := range []string{"x", "{}", "[]", "null"} {
		f.setNote(m.ID, note)
		if delivered, err := f.recover(t, t.Context(), m); delivered || !errors.Is(err, orchestrator.ErrUndecidable) {
			t.Errorf("Recover with the note %q: %v, %v; want ErrUndecidable", note, delivered, err)
		}
	}
	f.mustArrive(t, m)
}

// setNote replaces the note that Mark stored.
func (f *office) setNote(id, note string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.notes == nil {
		f.notes = map[string]string{}
	}
	f.notes[id] = note
}

// reportsLostEvidence calls Recover after the evidence it looks for was removed. The first attempt is the first ever
// to that recipient, so no earlier evidence exists.
func reportsLostEvidence(t *testing.T, f *office, lose func(t *testing.T)) {
	for _, id := range []string{"first", "second"} {
		m := message(id, `1`)
		f.mustDeliver(t, m)
		lose(t)
		f.mustBeUndecidable(t, m)
		f.mustDeliver(t, message(id+"-other", `2`))
		f.mustBeUndecidable(t, m)
	}
	kept := message("kept", `4`)
	f.mustDeliver(t, kept)
	f.mustRecover(t, kept, true)
}

func (f *office) mustBeUndecidable(t *testing.T, m orchestrator.Message) {
	t.Helper()
	delivered, err := f.recover(t, t.Context(), m)
	if delivered || !errors.Is(err, orchestrator.ErrUndecidable) {
		t.Fatalf("Recover of %s: %v, %v; want ErrUndecidable", m.ID, delivered, err)
	}
}
