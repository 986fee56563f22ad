//go:build hosts

package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"mailroom/orchestrator/orchestratortest/want"
)

// party is a host in which an agent works that other agents wake.
type party struct {
	ready   func(k *desk) // writes what the user has of the host
	connect []string      // more words for connect
	starts  func(k *desk) talker
}

// talker is a session whose user can say something, and whose model the test plays.
type talker interface {
	types(text string)
	asks() *request
}

// toldOtherwise is a talker whose user's words come otherwise than by a keyboard.
type toldOtherwise struct {
	*session
	says func(text string)
}

func (t toldOtherwise) types(text string) { t.says(text) }

var parties = map[string]party{
	"claude": {func(*desk) {}, nil, func(k *desk) talker {
		s := k.start(k.claudeEnv(), "-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose")
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
			k.env = append(k.env, "PATH="+filepath.Dir(k.program)+":/usr/local/bin:/usr/bin:/bin") // by which connect finds it
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

// TestHostsConverseInPairs: two hosts in one project, with nothing but what connect has written, tell each other ten messages.
// Each is woken by what the other says, and its model is shown each message once and in order.
func TestHostsConverseInPairs(t *testing.T) {
	t.Parallel()
	for _, pair := range [][2]string{{"pi", "claude"}, {"copilot", "codex"}, {"qwen", "opencode"}} {
		t.Run(pair[0]+" and "+pair[1], func(t *testing.T) {
			t.Parallel()
			var talkers [2]talker
			first := claudeDesk(t)
			shop := filepath.Dir(first.write("shop/README.md", "Shop"))
			for i, host := range pair {
				k := seats[host].desk(t)
				k.office, k.folder, k.project = first.office, first.folder, shop
				of := parties[host]
				of.ready(k)
				k.connects(append([]string{"--as", "of-" + host}, of.connect...)...)
				talkers[i] = of.starts(k)
			}
			talkers[1].types("Hello.")
			talkers[1].asks().says("Hello.")
			first.await(`SELECT count(*) FROM host_sessions WHERE state = 'idle' AND agent = 'of-`+pair[1]+`'`, "1")
			talkers[0].types("Talk to the other.")
			var said [2][]string // to each
			for n := range 10 {
				speaker, to := n%2, 1-n%2
				r := heard(talkers[speaker], said[speaker])
				r.calls(seats[pair[speaker]].tools+"send_message",
					map[string]any{"target": "of-" + pair[to], "message_type": "STATUS", "message": fmt.Sprintf("This is number %d.", n)})
				r = talkers[speaker].asks()
				r.showsInOrder(said[speaker]...)
				said[to] = first.rows(`SELECT message_id FROM agent_message WHERE recipient = 'of-` + pair[to] + `' ORDER BY seq`)
				if len(said[to]) != n/2+1 {
					t.Fatalf("of-%s has got %q; the model is told\n%s", pair[to], said[to], r.text())
				}
				r.says("I have told it.")
			}
			heard(talkers[0], said[0]).says("Good.")
			first.await(`SELECT count(*) FROM agent_message WHERE recipient LIKE 'of-%' AND read_at <> ''`, "10")
			want.Rows(t, first.rows(`SELECT message_id FROM message_trace WHERE event = 'shown' GROUP BY message_id
				HAVING count(*) > 1`))
		})
	}
}

// heard returns the request of a model that has been shown messages, of which the last may come a step after what wakes it.
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
