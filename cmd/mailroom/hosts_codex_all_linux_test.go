//go:build hosts

package main

import "testing"

// TestCodexTwoToolsAtOnce checks that the end of the second of two tools called at the same time does not mark a
// message as read that was shown after the first.
func TestCodexTwoToolsAtOnce(t *testing.T) {
	t.Parallel()
	s := codexDesk(t).codex("Do it.")
	s.worksTwice(s.asks(), "exec_command", comesTo)
}

// TestCodexIsNotKeptFromStopping checks that messages delay the end of a turn five times; then they wait, and `codex
// exec` ends.
func TestCodexIsNotKeptFromStopping(t *testing.T) {
	t.Parallel()
	codexDesk(t).codex("Do it.").isNotKeptFromStopping()
}

// isNotKeptFromStopping sends a message at each end of a turn.
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
