package overview_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator/hosts"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/process"
)

// The doctor reports two live sessions with one name, and messages that are not shown because no hook is called.
func TestDoctorOfHosts(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "alice", "bob")
	happens := func(session string, p process.ID) {
		t.Helper()
		if _, err := hosts.Happened(t.Context(), f.Ledger,
			hosts.Event{Agent: "bob", Program: "claude", Session: session, Process: p,
				Kind: hosts.Started}); err != nil {
			t.Fatal(err)
		}
	}
	finds := func(check string) string {
		t.Helper()
		list := overview.Doctor(t.Context(), f.Ledger, overview.DoctorOptions{})
		i := slices.IndexFunc(list, func(found overview.Finding) bool {
			return strings.HasPrefix(found.Title(),
				check)
		})
		if i < 0 {
			return ""
		}
		return list[i].Text()
	}
	happens("one", process.Of(os.Getpid()))
	want.Equal(t, "one session", finds("sessions bob"), "")
	happens("two", process.Of(os.Getppid()))
	want.Equal(t, "two sessions", finds("sessions bob"),
		"2 running sessions share this agent name (one of claude, two of claude). A message goes to the first session that checks for messages")
	f.Send("alice", "bob")
	f.Deliver()
	want.Equal(t, "unread", finds("unread bob"), "")
	seen := f.Stamp()
	f.Clock.Advance(time.Hour + time.Second)
	want.Equal(t, "unread for long", finds("unread bob"), "bob does not read its messages: Mailroom last heard from the agent at "+seen+
		"; its host has not called a hook since "+seen+". Start a session, and check that its hooks are turned on")
}
