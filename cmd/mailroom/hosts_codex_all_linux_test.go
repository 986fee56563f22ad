//go:build hosts

package main

import (
	"strings"
	"testing"
)

// TestCodexTwoToolsAtOnce: the second of two tools that were called at once tells nothing of a message shown after the first.
func TestCodexTwoToolsAtOnce(t *testing.T) {
	t.Parallel()
	s := codexDesk(t).codex("Do it.")
	s.worksTwice(s.asks(), "exec_command", comesTo)
}

// TestCodexIsNotKeptFromStopping: messages put the end of a turn off five times; then they wait, and `codex exec` ends.
func TestCodexIsNotKeptFromStopping(t *testing.T) {
	t.Parallel()
	k := codexDesk(t)
	s := k.codex("Do it.")
	var shown []string
	for range 6 {
		r := s.asks()
		r.shows(shown...)
		shown = append(shown, k.send("One more."))
		r.says("Done.")
	}
	s.ends()
	k.stand("read", "read", "read", "read", "read", "unread")
}

// TestCodexIsNotDisturbed: without a database Codex works as if there were no hooks. What else may be wrong the tests of Claude
// have, since it makes no difference to the host.
func TestCodexIsNotDisturbed(t *testing.T) {
	t.Parallel()
	k := codexDesk(t)
	k.send("Look at the build.")
	repair := harms["missing"](k)
	s := k.codex("Do it.")
	r := s.asks()
	r.shows()
	r.calls("exec_command", map[string]any{"cmd": "echo It works."})
	r = s.asks()
	r.shows()
	if text := r.text(); !strings.Contains(text, "It works.") {
		t.Errorf("the model is told:\n%s", text)
	}
	r.says("Done.")
	s.ends()
	repair()
	if out := s.out.String(); strings.Contains(out, "Failed") || !strings.Contains(out, "Completed") {
		t.Errorf("the host says:\n%s", out)
	}
}
