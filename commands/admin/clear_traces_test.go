package admin

import (
	"testing"
	"time"

	"mailroom/commands/admin/operations"
	"mailroom/orchestrator"
	"mailroom/orchestrator/cost"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/store"
)

// TestClearTraces checks that the trace of a message is deleted as a whole, 90 days after the message and its
// archived copy were deleted. The trace of a message that still exists is kept.
func TestClearTraces(t *testing.T) {
	t.Parallel()
	const days = 24 * time.Hour
	h := knownHistory(t)
	known := func(label string) bool {
		t.Helper()
		_, err := h.try(h.router, "trace", `{"message_id":"`+h.id(label)+`"}`)
		if err != nil && orchestrator.CodeOf(err) != orchestrator.NotFound {
			t.Fatal(err)
		}
		return err == nil
	}
	spent := func() int64 {
		t.Helper()
		n, err := ledger.ReadValue(t.Context(), h.router.Ledger, func(c *store.Conn) (int64, error) {
			return c.Number(`SELECT count(*) FROM context_use`)
		})
		if err == nil && n == 0 {
			err = h.router.Ledger.Write(t.Context(), store.Of("bob"), func(x *ledger.Tx) error {
				return cost.Note(x, "bob", []cost.Use{{Sender: "alice", Way: cost.WayTool, Messages: 1, Bytes: 1}})
			})
		}
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	want.Equal(t, "hours that are counted", spent(), 0)
	h.clock.Advance(8 * days)
	ask[any](h.fixture, "clear_old", `{}`) // deletes m5-given-up, archives m1-read
	h.clock.Advance(81 * days)
	ask[any](h.fixture, "clear_traces", `{}`)
	want.Equal(t, "hours that are counted, after 89 days", spent(), 1)
	h.clock.Advance(8 * days)
	if r := ask[operations.ClearTracesResult](h.fixture, "clear_traces", `{}`); r.MessageTraces != 0 ||
		!known("m5-given-up") {
		t.Errorf("%+v after 89 days", r)
	}
	h.clock.Advance(2 * days)
	// m5: created, claimed and attempt_failed twice, failed, deleted. m9 and m0: created, deleted. m7: created, claimed
	// three times, failed twice, delivered, adopted as cancelled, deleted. m11: created, claimed, failed once, expired,
	// deleted.
	if r := ask[operations.ClearTracesResult](h.fixture, "clear_traces", `{}`); r.MessageTraces != 7+2+2+9+5 {
		t.Errorf("%+v after 91 days", r)
	}
	for label, want := range map[string]bool{"m5-given-up": false, "m7-climber": false, "m1-read": true,
		"m13-climbing": true} {
		if known(label) != want {
			t.Errorf("the trace of %s is known: %v", label, !want)
		}
	}
	ask[any](h.fixture, "clear_old", `{}`) // deletes m1-read from the archive
	h.clock.Advance(91 * days)
	ask[any](h.fixture, "clear_traces", `{}`)
	if known("m1-read") {
		t.Error("the trace of m1-read outlived its archive by 91 days")
	}
	want.Equal(t, "hours that are counted", spent(), 0)
	for _, bad := range []string{`{"older_than_days":0}`, `{"older_than_days":3651}`, `{"older_than_days":"1"}`} {
		h.refused("clear_traces", bad, orchestrator.InvalidParams)
	}
}
