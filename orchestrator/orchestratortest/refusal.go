package orchestratortest

import (
	"bytes"
	"strings"
	"testing"

	"mailroom/orchestrator"
)

// repeatTests are for transports that cannot determine the outcome of an attempt that never reported a result.
var repeatTests = []struct {
	name string
	run  func(t *testing.T, f *office)
}{
	{"Repeats", repeatsAlike},
}

// failsVisibly delivers to a recipient that rejects messages, and again after the recipient accepts them.
func failsVisibly(t *testing.T, f *office) {
	if f.Fail == nil {
		return
	}
	before := message("before", `1`)
	f.mustDeliver(t, before)
	restore := f.Fail(t)
	ms := numbered("m", min(3, f.Transport.MaxBatch()))
	for range 2 {
		for i, err := range f.deliver(t, t.Context(), ms...) {
			switch {
			case err == nil:
				t.Errorf("%s was delivered although the recipient refused it", ms[i].ID)
			case err.Error() == "" || !strings.Contains(err.Error(), f.Says):
				t.Errorf("%s failed with %q, which does not say %q", ms[i].ID, err, f.Says)
			}
		}
	}
	restore()
	f.again(t, ms...)
	f.mustArrive(t, append([]orchestrator.Message{before}, ms...)...)
}

// again makes the attempt after a failed one. For a message that already has a mark, it first calls Recover, as the
// engine does.
func (f *office) again(t *testing.T, ms ...orchestrator.Message) {
	t.Helper()
	if _, ok := f.Transport.(orchestrator.Recoverer); ok && f.marked(ms[0].ID) {
		f.finish(t, ms...)
		return
	}
	f.mustDeliver(t, ms...)
}

func (f *office) marked(id string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.notes[id] != ""
}

// repeatsAlike delivers messages whose first attempt succeeded and was never recorded. The recipient must be able to
// detect the repetition, so the ID and the payload must be the same.
func repeatsAlike(t *testing.T, f *office) {
	ms := numbered("m", 4)
	ms[1].ID = `strange "id" / ä`
	ms[2].Payload = []byte(` {"n": 1.10, "z": "<b>\u2028"} `)
	f.mustDeliverEach(t, ms)
	again := make([]orchestrator.Message, len(ms))
	for i, m := range ms {
		m.Crashes, m.RetryCount, m.Status = 1, 1, orchestrator.Retry
		again[i] = m
	}
	f.mustDeliverEach(t, again)
	f.mustArrive(t, append(ms, again...)...)
	arrived := f.Arrived(t)
	for i, first := range arrived[:len(ms)] {
		if second := arrived[len(ms)+i]; !bytes.Equal(first.Payload, second.Payload) {
			t.Errorf("%s arrived as %s and then as %s", first.ID, first.Payload, second.Payload)
		}
	}
}

// mustDeliverEach delivers messages one by one, as the engine does for messages whose process died.
func (f *office) mustDeliverEach(t *testing.T, ms []orchestrator.Message) {
	t.Helper()
	for _, m := range ms {
		f.mustDeliver(t, m)
	}
}
