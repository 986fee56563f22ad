//go:build hosts

package main

import "testing"

// TestCodexTwoToolsAtOnce: the second of two tools that were called at once tells nothing of a message shown after the
// first.
func TestCodexTwoToolsAtOnce(t *testing.T) {
	t.Parallel()
	s := codexDesk(t).codex("Do it.")
	s.worksTwice(s.asks(), "exec_command", comesTo)
}

// TestCodexIsNotKeptFromStopping: messages put the end of a turn off five times; then they wait, and `codex exec` ends.
func TestCodexIsNotKeptFromStopping(t *testing.T) {
	t.Parallel()
	codexDesk(t).codex("Do it.").isNotKeptFromStopping()
}

// isNotKeptFromStopping has a message come at each end of a turn.
func (s *session) isNotKeptFromStopping() {
	s.t.Helper()
	var shown []string
	for range 6 {
		r := s.asks()
		r.shows(shown...)
		shown = append(shown, s.send("One more."))
		r.says("Done.")
	}
	s.ends()
	s.stand("read", "read", "read", "read", "read", "unread")
}
