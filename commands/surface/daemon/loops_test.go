package daemon

import (
	"log/slog"
	"testing"

	"mailroom/orchestrator/hosts"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
)

// TestLoopHold checks that a daemon holds the messages of agents in a loop only while the setting loop.hold is on,
// only for agents with sessions, and not after a person has let them continue.
func TestLoopHold(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "ann", "bob", "cy")
	looks := func(held string) {
		t.Helper()
		if err := holdLoops(t.Context(), f.Ledger, slog.New(slog.DiscardHandler)); err != nil {
			t.Fatal(err)
		}
		want.Equal(t, "held", f.Rows(`SELECT coalesce(max(key), '') FROM settings WHERE key LIKE 'hold.%'`)[0], held)
	}
	attends := func(agent string) {
		if _, err := hosts.Happened(t.Context(), f.Ledger, hosts.Event{Agent: agent, Program: "claude", Session: "of " + agent,
			Kind: hosts.Started}); err != nil {
			t.Fatal(err)
		}
	}
	attends("ann")
	for range 16 {
		for _, pair := range [][2]string{{"ann", "bob"}, {"bob", "ann"}, {"ann", "cy"}, {"cy", "ann"}} {
			f.Send(pair[0], pair[1])
		}
	}
	looks("")
	f.Set("loop.hold", "on")
	looks("")
	attends("bob")
	looks("hold.ann bob")
	if _, _, _, err := hosts.LetGo(t.Context(), f.Ledger, "ann", "bob", "a person"); err != nil {
		t.Fatal(err)
	}
	looks("")
}
