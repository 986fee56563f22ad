package bridge_test

import (
	"os"
	"testing"

	"mailroom/orchestrator/orchestratortest/want"
)

// TestTakesInOnce checks that a file for an agent that reads its folder stays, as its delivery, and that a file for
// any other agent goes through that agent's transport and is removed. Another check changes nothing.
func TestTakesInOnce(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "pm", "developer:")
	o.write(note("m1", "pm", "developer"), "developer", "m1.json")
	o.write(note("m2", "developer", "pm"), "pm", "any name.json")
	first := o.once()
	want.Equal(t, "taken in", first.TakenIn, 2)
	want.Equal(t, "delivered", first.Delivered, 1)
	o.wantRows(`SELECT message_id, sender, recipient, status FROM agent_message ORDER BY message_id`,
		"m1 pm developer delivered", "m2 developer pm delivered")
	o.wantRows(`SELECT event, error FROM message_trace WHERE message_id = 'm1' ORDER BY id`,
		"created taken in from "+o.path("developer", "m1.json"),
		"delivered taken in from "+o.path("developer", "m1.json"))
	want.Equal(t, "the delivery is there", o.exists("developer", "m1.json"), true)
	want.Equal(t, "the other file is there", o.exists("pm", "any name.json"), false)
	second := o.once()
	want.Equal(t, "taken in again", second.TakenIn, 0)
	want.Equal(t, "acknowledged", second.Acknowledged, 0)
	must(t, os.Remove(o.path("developer", "m1.json")))
	want.Equal(t, "acknowledged", o.once().Acknowledged, 1)
	want.Equal(t, "acknowledged again", o.once().Acknowledged, 0)
	o.wantRows(`SELECT event, error FROM message_trace WHERE message_id = 'm1' AND event = 'acknowledged'`,
		"acknowledged its file was removed")
	o.wantRows(`SELECT path FROM bridge_problems`)
}
