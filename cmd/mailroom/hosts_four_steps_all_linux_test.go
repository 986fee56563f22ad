//go:build hosts

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFourSteps is the README's first example: in a folder without a database, `mailroom codex` and `mailroom claude`
// are sufficient for one model to get the answer of the other.
func TestFourSteps(t *testing.T) {
	t.Parallel()
	bob, alice := codexDesk(t), claudeDesk(t)
	t.Cleanup(bob.endsAll)
	shop := filepath.Join(bob.folder, "shop")
	programs := filepath.Join(bob.folder, "bin")
	for _, folder := range []string{shop, programs} {
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	path := "PATH=" + programs + ":" + os.Getenv("PATH")
	for _, k := range []*desk{bob, alice} {
		if err := os.Symlink(k.program, filepath.Join(programs, k.host)); err != nil {
			t.Fatal(err)
		}
		k.folder, k.project, k.db, k.program = bob.folder, shop, filepath.Join(shop, ".mailroom", "mailroom.db"), k.mailroom()
	}
	bob.write(".codex/config.toml", bob.codexModel()+"\n")

	mailroom := bob.program
	bob.program = "env"
	c := bob.opens(path, mailroom, "codex", "--as", "bob", "--", "--no-daemon", "--sandbox", "danger-full-access",
		"--ask-for-approval", "never")
	c.trusts()
	c.types("hello")
	c.asks().says("Hello.")
	bob.untilCodexRests(1)

	s := alice.start(append(alice.claudeEnv(), path), "claude", "--as", "alice", "--yes", "--", "-p", "ask bob what he works on")
	s.in.Close()
	s.asks().calls("mcp__mailroom__send_message",
		map[string]any{"target": "bob", "message_type": "QUERY", "message": "What do you work on?"})
	s.asks().calls("mcp__mailroom__get_messages", map[string]any{"wait_seconds": 50})

	r := c.asks()
	if !strings.Contains(r.text(), "What do you work on?") {
		t.Errorf("bob is not shown the question, but\n%s", r.text())
	}
	r.calls("send_message", map[string]any{"target": "alice", "message_type": "RESULT", "message": "I mend the build."})
	c.asks().says("Answered.")

	answer := s.asks()
	if !strings.Contains(answer.text(), "I mend the build.") {
		t.Errorf("alice does not get the answer, but\n%s", answer.text())
	}
	answer.says("Bob mends the build.")
	s.ends()
}
