//go:build hosts

package main

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// sendTyped sends bob a message of a type.
func (k *desk) sendTyped(kind string) string {
	k.t.Helper()
	return k.run("send", "--sender", "alice", "--recipient", "bob", "--message-type", kind, "--payload",
		`"Look at the build."`)["message_id"].(string)
}

// TestHostsAcknowledgementsCostNoTurn checks that an acknowledgement neither delays the end of a turn nor wakes an
// idle session. The model sees it with the next prompt.
func TestHostsAcknowledgementsCostNoTurn(t *testing.T) {
	t.Parallel()
	inEachHost(t, func(t *testing.T, k *desk, of seat) {
		ends := k.newGate()
		if of.end != "" {
			once := filepath.Join(k.folder, "once")
			k.hooked = fmt.Sprintf("case $EVENT in *top|AfterAgent) [ -e %[1]s ] || { touch %[1]s; %[2]s; } ;; esac; hook", once, ends.pass())
		}
		s := k.sits()
		s.asks().says("Done.")
		var id string
		if of.end != "" {
			ends.reached()
			id = k.sendTyped("ACK")
			ends.open()
			s.turnEnds()
		} else {
			s.turnEnds()
			k.await(`SELECT count(*) FROM host_sessions WHERE state = 'idle'`, "1")
			id = k.sendTyped("ACK")
		}
		k.stand("unread")
		s.goesOn("What else?")
		r := s.asks()
		if !strings.Contains(r.text(), "What else?") {
			t.Errorf("the message has begun a turn:\n%s", r.text())
		}
		s.rests(s.isShown(r, id))
	})
}

// TestHostsCost measures how many bytes 1, 10 and 100 messages of 100 characters add to a request to the model of
// each host. The limit is 700 bytes, plus 400 for each message. docs/cost.md contains the logged results.
func TestHostsCost(t *testing.T) {
	t.Parallel()
	inEachHost(t, func(t *testing.T, k *desk, of seat) {
		without := k.requestAfter(0)
		var sizes []string
		for _, n := range []int{1, 10, 100} {
			size := k.requestAfter(n) - without
			if size > 700+400*n {
				t.Errorf("%d messages add %d bytes", n, size)
			}
			sizes = append(sizes, strconv.Itoa(size))
		}
		t.Logf("COST | %s | %s |", k.host, strings.Join(sizes, " | "))
	})
}

// requestAfter returns the length of a request in the eighth step of a session that was sent messages before the
// first.
func (k *desk) requestAfter(messages int) int {
	k.t.Helper()
	for range messages {
		k.send(strings.Repeat("x", 100))
	}
	s := k.sits()
	r := s.asks()
	for step := range 8 {
		s.works(r, fmt.Sprintf("echo Step %d.", step)) // different each time, because some hosts end apparent loops
		r = s.asks()
	}
	s.rests(r)
	if s.live != nil {
		s.kill()
	}
	return len(r.text())
}

// TestClaudeIsFlooded checks that ten thousand messages add no more to a session's context than the budget allows,
// and remain available.
func TestClaudeIsFlooded(t *testing.T) {
	t.Parallel()
	k := seats["claude"].desk(t)
	k.run("setting", "set", "hops.inherited", "10000")
	g := k.newGate()
	s := k.sits()
	r := s.asks()
	before := len(r.text())
	s.worksAt(r, g)
	const n = 10_000
	k.sendMany(n)
	g.open()
	r = s.asks()
	for range 20 {
		s.works(r, "echo One step.")
		r = s.asks()
	}
	const steps = 21 * 300 // bytes that the steps themselves add
	put := len(r.text()) - before
	if put > 64<<10+steps || put < 40<<10 {
		t.Errorf("%d bytes were put into the context", put)
	}
	if !strings.Contains(r.text(), "more messages for you, the agent bob, listed but not shown") {
		t.Error("the model is not told of the others")
	}
	shown := len(r.shown())
	r.says("Done.")
	s.turnEnds()
	left, _ := strconv.Atoi(k.rows(`SELECT count(*) FROM agent_inbox WHERE recipient = 'bob' AND read_at = ''`)[0])
	if left+shown != n {
		t.Errorf("%d messages were shown, and %d are unread", shown, left)
	}
	for left > 0 {
		got := k.run("wait", "--recipient", "bob", "--limit", "1000", "--timeout", "0")["messages"].([]any)
		if len(got) == 0 {
			t.Fatalf("%d messages cannot be read", left)
		}
		left -= len(got)
	}
}
