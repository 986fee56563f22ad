package orchestratortest

import (
	"bytes"
	"strings"
	"testing"

	"mailroom/orchestrator"
)

// repeatTests are for transports that cannot tell what became of an attempt which never reported back.
var repeatTests = []struct {
	name string
	run  func(t *testing.T, f *office)
}{
	{"Repeats", repeatsAlike},
}

// failsVisibly delivers to a recipient that refuses, and once more when it does not any longer.
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

// again makes the attempt after one that reported a failure. A message that it left its mark on is asked for first, as
// the engine does.
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

// repeatsAlike delivers messages whose first attempt got through and was never settled. The recipient must be able to
// see that it has them: they come with the same id and the same payload.
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

// mustDeliverEach delivers messages one by one: those whose process died before are taken alone.
func (f *office) mustDeliverEach(t *testing.T, ms []orchestrator.Message) {
	t.Helper()
	for _, m := range ms {
		f.mustDeliver(t, m)
	}
}
