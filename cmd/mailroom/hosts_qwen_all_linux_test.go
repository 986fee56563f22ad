//go:build hosts

package main

import (
	"strings"
	"testing"
)

// TestQwenWakes checks that an idle session in a terminal is woken by its inbox for each message, even before its
// first turn and after /clear, and that its user sees only the number of messages. A hook of that turn shows the
// message. Messages that arrive while the session works are shown once, by the hooks. The token of the inbox is in no
// command line.
func TestQwenWakes(t *testing.T) {
	t.Parallel()
	k := bareQwenDesk(t).connects("--as", "bob", "--user")
	c := k.opensTerminal()
	k.await(`SELECT count(*) FROM host_sessions WHERE waiter_pid > 0`, "1")
	c.isWokenEachTime("/quit", func(ids ...string) (*request, string) {
		id := k.send("Look at the build.")
		r := c.asks()
		r.shows(ids...)
		if text := r.text(); !strings.Contains(text, "mailroom: 1 new message from other agents.") ||
			!strings.Contains(text, `origin="own-process"`) {
			t.Errorf("the model is told\n%s", text)
		}
		r.says("I see.")
		r = c.asks()
		r.shows(append(ids, id)...)
		return r, id
	})
}
