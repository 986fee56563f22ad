//go:build hosts

package main

import (
	"strings"
	"testing"

	"mailroom/orchestrator/orchestratortest/want"
)

// inTerminal describes how a test uses a host in a terminal.
type inTerminal struct {
	env         func(k *desk) []string
	args        []string
	ready       string // on the screen when its user can type
	interrupted string // on the screen when its user has ended a turn
}

// terminals are the hosts that tests run in a terminal.
var terminals = map[string]inTerminal{
	"copilot":  {(*desk).copilotEnv, []string{"--allow-all"}, "/ commands", "ancelled"},
	"qwen":     {(*desk).qwenEnv, []string{"--yolo"}, "Type your message", "Request cancelled"},
	"pi":       {func(*desk) []string { return []string{"PI_OFFLINE=1"} }, []string{"--approve"}, "mock", "aborted"},
	"kilo":     {(*desk).openCodeEnv, nil, "Ask anything", ""},
	"opencode": {(*desk).openCodeEnv, nil, "Ask anything", ""},
}

// opensTerminal opens the desk's host in a terminal, with additional arguments, and waits until its user can type.
func (k *desk) opensTerminal(args ...string) *console {
	k.t.Helper()
	of, program := terminals[k.host], k.program
	k.program = "env"
	c := k.opens(append(append(append(of.env(k), program), of.args...), args...)...)
	k.program = program
	c.screenHas(of.ready)
	return c
}

// TestHostsInterruptedInATerminal checks that if the user ends a turn after the model was asked about a message, the
// message stays in the conversation, is not shown again, and is read after the model's next answer.
func TestHostsInterruptedInATerminal(t *testing.T) {
	t.Parallel()
	for _, host := range []string{"copilot", "qwen", "pi"} {
		t.Run(host, func(t *testing.T) {
			t.Parallel()
			of := seats[host]
			k := of.desk(t)
			k.connects("--as", "bob", "--user")
			c := k.opensTerminal()
			g := k.newGate()
			c.types("Do it.")
			c.asks().calls(of.shell, of.at(g.pass()))
			g.reached()
			id := k.send("Look at the build.")
			if of.end == "" { // the message arrives by itself
				c.screenHas("mailroom: 1 new")
			}
			g.open()
			c.asks().shows(id)
			k.stand("shown")
			c.key("Escape")
			c.until("the turn ends", func(screen string) bool {
				if strings.Contains(screen, "esc again") {
					c.key("Escape")
				}
				return strings.Contains(screen, terminals[host].interrupted) && strings.Contains(screen, terminals[host].ready)
			})
			c.types("Go on.")
			r := c.asks()
			r.shows(id)
			r.says("Done.")
			k.read(1)
			want.Rows(t, k.rows(`SELECT count(*) FROM message_trace WHERE event = 'shown'`), "1")
		})
	}
}

// TestHostsWokenInATerminal checks that a message starts a turn in an idle terminal, and keeps the text that the user
// has typed so far.
func TestHostsWokenInATerminal(t *testing.T) {
	t.Parallel()
	for _, host := range []string{"pi", "kilo", "opencode"} {
		t.Run(host, func(t *testing.T) {
			t.Parallel()
			k := seats[host].desk(t)
			k.connects("--as", "bob")
			c := k.opensTerminal()
			c.types("Hello.")
			c.asks().says("Hello.")
			k.await(`SELECT count(*) FROM host_sessions WHERE state = 'idle'`, "1")
			c.key("h", "a", "l", "f")
			c.screenHas("half")
			id := k.send("Look at the build.")
			r := c.asks()
			r.shows(id)
			r.says("Done.")
			k.read(1)
			c.screenHas("half")
			c.key("Enter")
			r = c.asks()
			if !strings.Contains(r.text(), "half") {
				t.Errorf("what was typed is gone:\n%s", r.text())
			}
			r.shows(id)
			r.says("Done.")
		})
	}
}

// isWokenEachTime checks that an idle session is woken for each message: before its first turn, after it, and after
// /clear, which starts another session. Its user sees no message. Messages that arrive while it works are shown by a
// hook. Each message is shown once. When the user ends the host with the command exit, all waiting processes end.
// wakes sends bob a message, and returns the request with that message and the earlier ones.
func (c *console) isWokenEachTime(exit string, wakes func(ids ...string) (*request, string)) {
	c.t.Helper()
	var ids []string
	wake := func() {
		c.t.Helper()
		r, id := wakes(ids...)
		if strings.Contains(c.screen(), "Look at the build.") {
			c.t.Errorf("its user sees the message:\n%s", c.screen())
		}
		ids = append(ids, id)
		r.says("Done.")
	}
	for range 2 {
		wake()
		c.desk.read(len(ids))
		c.await(`SELECT count(*) FROM host_sessions WHERE waiter_pid > 0 AND state = 'idle'`, "1")
	}
	of := seats[c.host]
	g := c.newGate()
	c.types("Do it.")
	r := c.asks()
	r.calls(of.shell, of.at(g.pass()))
	g.reached()
	ids = append(ids, c.send("And the docs."))
	g.open()
	r = c.asks()
	r.shows(ids...)
	r.says("Done.")
	c.desk.read(3)

	c.types("/clear")
	c.await(`SELECT count(*) FROM host_sessions WHERE waiter_pid > 0 AND state = 'idle'`, "1")
	c.await(`SELECT count(*) FROM host_sessions`, "2")
	ids = nil
	wake()
	c.desk.read(4)
	want.Rows(c.t, c.rows(`SELECT count(*) FROM message_trace WHERE event = 'shown'`), "4")
	c.types(exit)
	c.ends()
	c.desk.until("nothing waits for messages any more", func() bool { return len(c.processes()) == 0 })
}
