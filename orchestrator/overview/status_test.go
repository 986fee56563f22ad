package overview_test

import (
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
)

// TestNextDue checks that the next run is due now while a message waits that a run would take, and otherwise at the
// planned time.
func TestNextDue(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	f.AddWired("w")
	at := func(d time.Duration) string { return orchestrator.Stamp(f.Clock.Now().Add(d)) }
	want.Equal(t, "nothing is there", f.NextDue(), "")
	f.Send("a", "b", func(d *orchestrator.Draft) { d.Delay = 2 * time.Hour })
	want.Equal(t, "all is wanted later", f.NextDue(), at(2*time.Hour))
	f.Send("a", "nobody", func(d *orchestrator.Draft) { d.HoldUnknown = true })
	if f.NextDue() == at(0) {
		t.Error("what is held is not due")
	}
	f.Send("a", "w")
	want.Equal(t, "a message is due", f.NextDue(), at(0))
	f.Wire.Set(enginetest.Failing("down"))
	f.Deliver()
	want.Equal(t, "it is retried", f.NextDue(), at(30*time.Second))
	f.SQL(`INSERT INTO agent_message (message_id, sender, recipient, payload) VALUES ('m', 'a', 'b', '1')`)
	want.Equal(t, "somebody wrote a row", f.NextDue(), at(0))
	f.Deliver()
	for i := range 3 {
		f.Send("a", "b", func(d *orchestrator.Draft) { d.Priority = i })
	}
	want.Equal(t, "of several one is due", f.NextDue(), at(0))
}
