package overview_test

import (
	"testing"

	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/store"
)

// Messages are sent and delivered whatever somebody has written into the counts by hand. The doctor reports the
// error, and a recount corrects it.
func TestNonsenseInCounts(t *testing.T) {
	t.Parallel()
	for _, nonsense := range []string{"-1", "9223372036854775807", "-9223372036854775808", "'nonsense'"} {
		f := enginetest.New(t, "a", "b")
		if nonsense[0] == '\'' && f.OnServer() { // which rejects it
			continue
		}
		f.Send("a", "b")
		f.Deliver()
		if err := f.Write(t.Context(), store.Alone, ledger.Recount); err != nil {
			t.Fatal(err)
		}
		f.SQL(`UPDATE message_count SET n = ` + nonsense)
		for range 3 {
			id := f.Send("a", "b")
			f.Deliver()
			f.Take("b")
			want.Equal(t, nonsense, string(f.Message(id).Status), "delivered")
		}
		if wrong, err := ledger.ReadValue(t.Context(), f.Ledger, ledger.Miscounted); err != nil || len(wrong) == 0 {
			t.Errorf("%s: the doctor finds %v, %v", nonsense, wrong, err)
		}
		if err := f.Write(t.Context(), store.Alone, ledger.Recount); err != nil {
			t.Fatal(err)
		}
		if wrong, err := ledger.ReadValue(t.Context(), f.Ledger, ledger.Miscounted); err != nil || len(wrong) > 0 {
			t.Errorf("%s: counted anew, the doctor finds %v, %v", nonsense, wrong, err)
		}
	}
}
