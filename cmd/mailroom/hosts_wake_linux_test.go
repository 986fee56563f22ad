package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mailroom/orchestrator/process"
)

// stops is the file to which noteStops appends a line after each end of the hook for the end of a turn.
func (k *desk) stops() string { return filepath.Join(k.folder, "stops") }

func (k *desk) noteStops() {
	k.hooked = "hook; test $EVENT != Stop || echo >>" + k.stops()
}

// untilIdle waits until bob's only session is idle after a number of turns, so that no hook of them shows later
// messages, and has a process that waits for messages, which untilIdle returns.
func (k *desk) untilIdle(turns int) process.ID {
	k.t.Helper()
	var waiter process.ID
	k.until("the session is idle, and a process waits for it", func() bool {
		if stopped, _ := os.ReadFile(k.stops()); len(stopped) < turns {
			return false
		}
		for _, row := range k.rows(`SELECT waiter_pid FROM host_sessions WHERE state = 'idle' AND waiter_pid > 0`) {
			pid, err := strconv.Atoi(row)
			if err != nil {
				k.t.Fatal(err)
			}
			waiter = process.Of(pid)
		}
		return waiter.Here()
	})
	return waiter
}

// TestClaudeWakes checks that an idle session is woken by each message, and that its model is shown the message.
// Claude Code does not treat the waking text as its user's prompt. When Claude Code is killed, the waiting process
// ends.
func TestClaudeWakes(t *testing.T) {
	t.Parallel()
	k := claudeDesk(t)
	k.wakes = true
	k.noteStops()
	s := k.claude()
	s.prompts("Hello.")
	s.asks().says("Hello.")
	var ids []string
	for turn := range 2 {
		k.untilIdle(turn + 1)
		began := time.Now()
		ids = append(ids, k.send("Look at the build."))
		r := s.asks()
		t.Logf("woken within %v", time.Since(began).Round(time.Millisecond))
		r.shows(ids...)
		if n := strings.Count(r.text(), "mailroom: 1 new message from other agents."); n != len(ids) {
			t.Errorf("the model is told of %d nudges:\n%s", n, r.text())
		}
		r.says("Done.")
	}
	waiter := k.untilIdle(3)
	k.stand("read", "read")
	handle, err := unix.PidfdOpen(waiter.PID, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(handle)
	s.kill()
	n, err := 0, error(unix.EINTR) // which the runtime causes
	for err == unix.EINTR {
		n, err = unix.Poll([]unix.PollFd{{Fd: int32(handle), Events: unix.POLLIN}}, int(patience.Milliseconds()))
	}
	if err != nil || n != 1 {
		t.Errorf("the process that waits does not end when the host does: %v", err)
	}
}
