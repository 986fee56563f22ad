//go:build hosts

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mailroom/orchestrator/orchestratortest/want"
)

// processes are the command lines of the processes that were told of the desk's database: Mailroom's and those of
// shells around it.
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

// killed kills the host, and has alice write before anything can have noticed. Nothing of Mailroom stays, and the
// message is unread.
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

// shownNext holds the agent's next session to being shown a message, once.
func (k *desk) shownNext(id string) {
	k.t.Helper()
	s := k.sits()
	s.rests(s.isShown(s.asks(), id))
	want.Rows(k.t, k.rows(`SELECT message_id FROM agent_message WHERE recipient = 'bob' AND read_at <> ''`), id)
}

// TestHostsKilledWhileTheirModelWaits: a host that is killed while its model waits for messages by a tool takes none
// with it.
func TestHostsKilledWhileTheirModelWaits(t *testing.T) {
	t.Parallel()
	inEachHost(t, func(t *testing.T, k *desk, of seat) {
		s := k.sits()
		s.asks().calls(of.tools+"coral_wait_for_mentions", map[string]any{"waitFor": "alice", "timeoutMs": 60_000})
		k.await(`SELECT count(*) FROM waits`, "1")
		k.shownNext(s.killed())
	})
}

// TestClaudeKilledWhileItIsIdle: a Claude Code that is killed while a process waits to wake it takes no message with
// it.
func TestClaudeKilledWhileItIsIdle(t *testing.T) {
	t.Parallel()
	k := claudeDesk(t)
	k.wakes = true
	k.noteStops()
	s := k.sits()
	s.asks().says("Done.")
	k.untilIdle(1)
	id := s.killed()
	k.wakes = false // with a waiter Claude Code takes half a minute to end
	k.shownNext(id)
}
