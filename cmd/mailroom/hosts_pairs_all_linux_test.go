//go:build hosts

package main

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mailroom/orchestrator/orchestratortest/want"
)

// party is a host whose agent is woken by other agents.
type party struct {
	ready   func(k *desk) // writes the user's files for the host
	connect []string      // additional arguments for connect
	starts  func(k *desk) talker
}

// talker is a session with a user who can write prompts, and with the test as its model.
type talker interface {
	types(text string)
	asks() *request
}

// toldOtherwise is a talker whose user's prompts do not come from a keyboard.
type toldOtherwise struct {
	*session
	says func(text string)
}

func (t toldOtherwise) types(text string) { t.says(text) }

var parties = map[string]party{
	"claude": {func(*desk) {}, nil, func(k *desk) talker {
		s := k.start(k.claudeEnv(), "-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose",
			"--allowed-tools", "Bash")
		return toldOtherwise{s, s.prompts}
	}},
	"pi": {(*desk).readiesPi, nil, func(k *desk) talker {
		p := k.pi()
		return toldOtherwise{p.session, p.prompts}
	}},
	"codex": {
		func(k *desk) {
			k.write(".codex/config.toml", k.codexModel()+"\n")
			k.t.Cleanup(k.endsAll)
			// connect finds the program in this PATH.
			k.env = append(k.env, "PATH="+filepath.Dir(k.program)+":"+cmp.Or(k.path(), "/usr/local/bin:/usr/bin:/bin"))
		},
		nil,
		func(k *desk) talker {
			c := k.codexTerminal("--no-daemon")
			c.trusts()
			return c
		},
	},
	"copilot": {(*desk).readiesCopilot, []string{"--idle"}, func(k *desk) talker { return k.opensTerminal("--experimental") }},
	"qwen":    {(*desk).readiesQwen, []string{"--user"}, func(k *desk) talker { return k.opensTerminal() }},
	"opencode": {readiesOpenCodeAtHome, nil, func(k *desk) talker {
		o := k.openCode()
		return toldOtherwise{o.session, o.prompts}
	}},
}

// conversation is a conversation of two hosts in one project, with only the files that connect wrote.
type conversation struct {
	*desk
	pair    [2]string // the hosts; their agents are named of- and the host
	talkers [2]talker
	told    [2][]string // the messages that each was sent
}

// meets starts two hosts. The second sends a greeting, and the user of the first asks for a conversation.
func meets(t *testing.T, pair [2]string) *conversation {
	t.Helper()
	return meetsAt(claudeDesk(t), pair)
}

// meetsAt starts the conversation of meets with the database of a desk.
func meetsAt(first *desk, pair [2]string) *conversation {
	first.t.Helper()
	c := &conversation{desk: first, pair: pair}
	shop := filepath.Dir(c.write("shop/README.md", "Shop"))
	for i, host := range pair {
		k := seats[host].desk(c.t)
		k.office, k.folder, k.project = c.office, c.folder, shop
		of := parties[host]
		of.ready(k)
		k.connects(append([]string{"--as", "of-" + host}, of.connect...)...)
		c.talkers[i] = of.starts(k)
	}
	c.talkers[1].types("Hello.")
	c.talkers[1].asks().says("Hello.")
	c.await(`SELECT count(*) FROM host_sessions WHERE state = 'idle' AND agent = 'of-`+pair[1]+`'`, "1")
	c.talkers[0].types("Talk to the other.")
	return c
}

// says makes one of the two, which has just been shown its messages, send the other a message. It returns the request
// in which the model gets the result.
func (c *conversation) says(speaker int, r *request, n int) *request {
	c.t.Helper()
	to := c.pair[1-speaker]
	r.calls(seats[c.pair[speaker]].tools+"send_message",
		map[string]any{"target": "of-" + to, "message_type": "QUERY", "message": fmt.Sprintf("This is number %d.", n)})
	r = c.talkers[speaker].asks()
	c.told[1-speaker] = c.rows(`SELECT message_id FROM agent_message WHERE recipient = 'of-` + to + `' ORDER BY seq`)
	return r
}

// heard returns the request in which one of the two is shown its messages.
func (c *conversation) heard(by int) *request { return heard(c.talkers[by], c.told[by]) }

// sees returns the request, r or one that follows by itself, in which one of the two has been shown messages.
func (c *conversation) sees(by int, r *request, ids ...string) *request {
	c.t.Helper()
	for slices.ContainsFunc(ids, func(id string) bool { return !slices.Contains(r.shown(), id) }) {
		r.says("I see.")
		r = c.talkers[by].asks() // fails if none follows
	}
	return r
}

// TestHostsConverseInPairs checks that two hosts can send each other ten messages. Each is woken by the other's
// messages, and its model is shown each message once and in order.
func TestHostsConverseInPairs(t *testing.T) {
	t.Parallel()
	for _, pair := range [][2]string{{"pi", "claude"}, {"copilot", "codex"}, {"qwen", "opencode"}} {
		t.Run(pair[0]+" and "+pair[1], func(t *testing.T) {
			t.Parallel()
			c := meets(t, pair)
			for n := range 10 {
				r := c.says(n%2, c.heard(n%2), n)
				r.showsInOrder(c.told[n%2]...)
				if got := c.told[1-n%2]; len(got) != n/2+1 {
					t.Fatalf("of-%s has got %q; the model is told\n%s", pair[1-n%2], got, r.text())
				}
				r.says("I have told it.")
			}
			c.heard(0).says("Good.")
			c.await(`SELECT count(*) FROM agent_message WHERE recipient LIKE 'of-%' AND read_at <> ''`, "10")
			want.Rows(t, c.rows(`SELECT message_id FROM message_trace WHERE event = 'shown' GROUP BY message_id
				HAVING count(*) > 1`))
		})
	}
}

// TestHostsInALoop checks two hosts whose models answer every message. They are reported as a loop, held back, and
// each is notified. After their release, the waiting messages wake them again.
func TestHostsInALoop(t *testing.T) {
	t.Parallel()
	c := meets(t, [2]string{"pi", "claude"})
	c.run("setting", "set", "hook.turns", "1000")
	n := 0
	for ; n < 32; n++ {
		c.says(n%2, c.heard(n%2), n).says("I have told it.")
	}
	if found := fmt.Sprint(c.run("now")); !strings.Contains(found, "of-claude and of-pi have exchanged 32 messages within ten minutes") {
		t.Errorf("the loop is not named: %s", found)
	}
	r := c.heard(0)
	c.run("hold", "of-pi", "of-claude")
	// The first message is to of-claude, the second to of-pi.
	notice := c.rows(`SELECT message_id FROM agent_message WHERE message_type = 'held' ORDER BY recipient`)
	r = c.says(0, r, n)
	if !strings.Contains(r.text(), "is held until ") {
		t.Errorf("the model is not told that its message waits:\n%s", r.text())
	}
	c.sees(0, r, notice[1]).says("They hold us back.")
	held := c.told[1][len(c.told[1])-1]
	want.Rows(t, c.rows(`SELECT status FROM agent_message WHERE message_id = '`+held+`'`), "pending")
	c.run("hold", "of-pi", "of-claude", "--off")
	c.sees(1, c.talkers[1].asks(), notice[0], held).says("Good.")
	want.Rows(t, c.rows(`SELECT count(*) FROM agent_message WHERE message_type = 'held'`), "2")
}

// heard returns the request of a model that has been shown messages. The last message may come a step after the one
// that wakes the model.
func heard(of talker, ids []string) *request {
	r := of.asks()
	for range 2 {
		if slices.Equal(r.shown(), ids) {
			break
		}
		r.says("I see.")
		r = of.asks()
	}
	r.showsInOrder(ids...)
	return r
}
