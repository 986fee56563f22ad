package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mailroom/orchestrator/orchestratortest/helper"
)

// waitsForLess makes the model wait for messages longer than its host waits for a tool, and checks the result: the
// tool waited for less.
func (s *session) waitsForLess() {
	s.t.Helper()
	r := s.asks()
	for _, tool := range r.tools(r.body) {
		if strings.HasSuffix(tool[1], "get_messages") { // each host has its own prefix
			r.calls(tool[1], map[string]any{"wait_seconds": 300})
		}
	}
	r = s.asks()
	if text := r.text(); !strings.Contains(text, "4s instead of 5m") {
		s.t.Errorf("the model is told\n%s", text)
	}
	r.says("Done.")
}

// hostLimit is how many seconds the hosts of these tests wait for a tool; a call waits for half of that.
const hostLimit = 8

// TestCodexWaitsForLess checks that a tool waits no longer than Codex's configuration allows.
func TestCodexWaitsForLess(t *testing.T) {
	helper.Long(t)
	t.Parallel()
	k := codexDesk(t)
	k.limit = hostLimit
	s := k.codex("Do it.")
	s.waitsForLess()
	s.ends()
}

// TestClaudeWaitsForLess checks that a tool waits no longer than the environment of Claude Code allows.
func TestClaudeWaitsForLess(t *testing.T) {
	helper.Long(t)
	t.Parallel()
	k := claudeDesk(t)
	k.speaks, k.limit = "relay", hostLimit
	s := k.claude()
	s.prompts("Do it.")
	s.waitsForLess()
	s.ends()
}

// TestGeminiWaitsForLess checks that a tool waits no longer than Gemini's configuration allows.
func TestGeminiWaitsForLess(t *testing.T) {
	helper.Long(t)
	t.Parallel()
	k := geminiDesk(t)
	k.speaks, k.limit = "relay", hostLimit
	s := k.gemini("Do it.")
	s.waitsForLess()
	s.ends()
}

// TestOpenCodeWaitsForLess checks that a tool waits no longer than OpenCode's configuration allows.
func TestOpenCodeWaitsForLess(t *testing.T) {
	helper.Long(t)
	t.Parallel()
	k := openCodeDesk(t)
	path := filepath.Join(k.folder, "opencode.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	k.write("opencode.json", strings.Replace(string(text), "120000", "8000", 1))
	o := k.openCode()
	o.prompts("Do it.")
	o.waitsForLess()
	o.rests()
}
