//go:build hosts

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mailroom/orchestrator/orchestratortest/want"
)

// processes returns the command lines of the processes that contain the desk's database: Mailroom's and those of
// shells around them.
func (k *desk) processes() (list []string) {
	k.t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		k.t.Fatal(err)
	}
	for _, path := range paths {
		words, _ := os.ReadFile(path) // it may have ended
		if line := strings.ReplaceAll(string(words), "\x00", " "); strings.Contains(line, k.db) {
			list = append(list, line)
		}
	}
	return list
}

// killed kills the host, and sends a message from alice before any process can have noticed. No process of Mailroom
// must remain, and the message must be unread.
func (s *sitting) killed() (id string) {
	s.t.Helper()
	if len(s.processes()) == 0 {
		s.t.Fatal("nothing of Mailroom runs in the host")
	}
	s.kill()
	id = s.send("Look at the build.")
	s.until("Mailroom's processes end with their host", func() bool { return len(s.processes()) == 0 })
	s.stand("unread")
	return id
}

// shownNext checks that the agent's next session shows a message once.
func (k *desk) shownNext(id string) {
	k.t.Helper()
	s := k.sits()
	s.rests(s.isShown(s.asks(), id))
	want.Rows(k.t, k.rows(`SELECT message_id FROM agent_message WHERE recipient = 'bob' AND read_at <> ''`), id)
}

// TestHostsKilledWhileTheirModelWaits checks that a host that is killed while its model waits for messages with a
// tool loses none.
func TestHostsKilledWhileTheirModelWaits(t *testing.T) {
	t.Parallel()
	inEachHost(t, func(t *testing.T, k *desk, of seat) {
		s := k.sits()
		s.asks().calls(of.tools+"coral_wait_for_mentions", map[string]any{"waitFor": "alice", "timeoutMs": 60_000})
		k.await(`SELECT count(*) FROM waits`, "1")
		k.shownNext(s.killed())
	})
}

// TestClaudeKilledWhileItIsIdle checks that a Claude Code that is killed while a process waits to wake it loses no
// message.
func TestClaudeKilledWhileItIsIdle(t *testing.T) {
	t.Parallel()
	k := claudeDesk(t)
	k.wakes = true
	k.noteStops()
	s := k.sits()
	s.asks().says("Done.")
	k.untilIdle(1)
	id := s.killed()
	k.wakes = false // with a waiting process, Claude Code takes half a minute to end
	k.shownNext(id)
}
