package hook

import (
	"strings"
	"testing"
	"time"

	"mailroom/commands"
	"mailroom/orchestrator/orchestratortest/want"
)

// TestQuiet checks that, after a hook has found nothing after a tool call, the hooks of the next calls do not open
// the database until somebody commits, something else happens in the session, or another session, agent or host asks.
func TestQuiet(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "claude")
	folder, state := t.TempDir(), "1"
	host := *r.host
	as := func(name string) {
		host.Quiet = &Quiet{Folder: folder, Database: "a.db", As: name,
			State: func(string) (string, bool) { return state, state != "" }}
	}
	as("bob")
	event := func(name, session string, opens, shows bool) {
		t.Helper()
		opened := false
		open := func() (commands.Env, error) {
			opened = true
			return r.env(), nil
		}
		var out strings.Builder
		if err := host.Answer(t.Context(), open, name, strings.NewReader(`{"session_id":"`+session+`"}`), &out); err != nil {
			t.Fatal(err)
		}
		want.Equal(t, name+" opens the database", opened, opens)
		want.Equal(t, name+" shows something", out.Len() > 0, shows)
	}
	settle := func() {
		t.Helper()
		event("PostToolUse", "one", true, false) // records that the session works
		event("PostToolUse", "one", true, false)
		event("PostToolUse", "one", false, false)
	}
	event("SessionStart", "one", true, false)
	settle()
	event("PostToolUse", "two", true, false)
	as("alice")
	event("PostToolUse", "one", true, false)
	as("bob")
	event("PostToolUse", "one", false, false)

	r.says()
	state = "2"
	event("PostToolUse", "one", true, true)
	event("PostToolUse", "one", true, false) // after messages were shown, each event may decide about them
	event("Stop", "one", true, false)
	settle()

	event("Stop", "one", true, false)
	settle()
	state = ""
	event("PostToolUse", "one", true, false)
	state = "2"
	event("PostToolUse", "one", false, false)
	n := host.Quiet.of(&host, "PostToolUse", Input{Session: "one"})
	want.Equal(t, "in an hour", n.holds(time.Now().Add(time.Hour)), false)
	want.Equal(t, "an hour ago", n.holds(time.Now().Add(-time.Hour)), false)
}
