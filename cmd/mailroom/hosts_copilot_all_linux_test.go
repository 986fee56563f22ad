//go:build hosts

package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"mailroom/orchestrator/orchestratortest/want"
)

// TestCopilotWakes checks that an idle session in a terminal is woken by its extension for each message, even before
// its first turn and after /clear, and that its user sees only the number of messages. Messages that arrive while it
// works are shown once, by the hooks.
func TestCopilotWakes(t *testing.T) {
	t.Parallel()
	k := bareCopilotDesk(t).connects("--as", "bob", "--idle")
	c := k.opensTerminal("--experimental")
	k.await(`SELECT count(*) FROM host_sessions WHERE waiter_pid > 0`, "1")
	c.isWokenEachTime("/exit", func(ids ...string) (*request, string) {
		id := k.send("Look at the build.")
		r := c.asks()
		r.shows(append(ids, id)...)
		return r, id
	})

	k.connects("--as", "bob", "--idle=false")
	if _, err := os.Stat(filepath.Join(k.project, ".github", "extensions")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("something is left of the extension: %v", err)
	}
}

// TestCopilotSubagent checks that a message that arrives while a subagent works is shown to the session's own model,
// and not to the subagent's.
func TestCopilotSubagent(t *testing.T) {
	t.Parallel()
	k := copilotDesk(t)
	s := k.copilot("Do it.")
	s.hasSubagent("task", map[string]any{"description": "Find it", "prompt": "Find it.", "agent_type": "general-purpose",
		"name": "finder", "mode": "sync"},
		"bash", map[string]any{"description": "Wait", "initial_wait": 600})
	want.Rows(t, k.rows(`SELECT count(*) FROM host_sessions`), "1")
}
