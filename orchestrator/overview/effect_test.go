package overview_test

import (
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/cost"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/store"
)

// Doctor names an agent that puts much into the context of another with little effect. Answers, acknowledgements, and
// anything the other sends soon afterwards count as effects.
func TestLittleEffect(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		after   func(f *enginetest.Fixture, id string)
		effects int
		found   bool
	}{
		"nothing": {func(*enginetest.Fixture, string) {}, 0, true},
		"one acknowledgement": {func(f *enginetest.Fixture, id string) {
			if _, err := messages.Acknowledge(f.T.Context(), f.Ledger, id, "bob"); err != nil {
				f.T.Fatal(err)
			}
		}, 1, true},
		"three answers": {func(f *enginetest.Fixture, id string) {
			f.Send("bob", "alice", func(d *orchestrator.Draft) { d.ReplyTo = id })
		}, 3, false},
		"three sends to others": {func(f *enginetest.Fixture, _ string) { f.Send("bob", "carol") }, 3, false},
		"three sends too late": {func(f *enginetest.Fixture, _ string) {
			f.Clock.Advance(11 * time.Minute)
			f.Send("bob", "carol")
		}, 3, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := enginetest.New(t, "alice", "bob", "carol")
			f.Set("hops.inherited", "1000")
			for i := range 25 {
				id := f.Send("alice", "bob")
				f.Take("bob")
				if i < test.effects {
					test.after(f, id)
				}
				f.Clock.Advance(20 * time.Minute)
			}
			if err := f.Ledger.Write(t.Context(), store.Of("bob"), func(x *ledger.Tx) error {
				return cost.Note(x, "bob", []cost.Use{{Sender: "alice", Type: "note", Way: cost.WayTool, Messages: 25, Bytes: 20_000}})
			}); err != nil {
				t.Fatal(err)
			}
			found := false
			for _, one := range overview.Doctor(t.Context(), f.Ledger, overview.DoctorOptions{}) {
				found = found || one.Code == "effect" && one.About == "alice to bob"
			}
			want.Equal(t, "found", found, test.found)
		})
	}
}
