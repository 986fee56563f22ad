package main

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"mailroom/orchestrator/orchestratortest/helper"
	"mailroom/orchestrator/orchestratortest/want"
)

// piDesk is a desk with pi, which mailroom connect has connected as bob, or as whom the arguments say.
func piDesk(t *testing.T, as ...string) *desk {
	t.Helper()
	if as == nil {
		as = []string{"--as", "bob"}
	}
	return barePiDesk(t).connects(as...)
}

// barePiDesk is a desk with pi, which knows nothing of Mailroom.
func barePiDesk(t *testing.T) *desk {
	t.Helper()
	k := newDesk(t, "pi", "@earendil-works/pi-coding-agent/dist/bundle/cli.js", completions)
	k.runsInNode()
	k.readiesPi()
	return k
}

// readiesPi writes what pi needs of its user.
func (k *desk) readiesPi() {
	k.t.Helper()
	k.write(".pi/agent/models.json", map[string]any{"providers": map[string]any{"mock": map[string]any{
		"baseUrl": k.model.server.URL + "/v1", "api": "openai-completions", "apiKey": "none",
		"models": []any{map[string]any{"id": "mock", "name": "Mock"}},
	}}})
	k.write(".pi/agent/settings.json", map[string]any{"defaultProvider": "mock", "defaultModel": "mock"})
}

// pi is pi as other programs drive it: it takes a JSON object a line.
type pi struct{ *session }

// pi starts pi in the folder, which it trusts, with more arguments.
func (k *desk) pi(args ...string) *pi {
	k.t.Helper()
	return &pi{k.start([]string{"PI_OFFLINE=1"}, append([]string{"--mode", "rpc", "--approve"}, args...)...)}
}

func (p *pi) tells(command map[string]any) {
	p.t.Helper()
	line, err := json.Marshal(command)
	if err == nil {
		_, err = io.WriteString(p.in, string(line)+"\n")
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// prompts has the user say something.
func (p *pi) prompts(text string) {
	p.t.Helper()
	p.tells(map[string]any{"type": "prompt", "message": text})
}

// has waits until the message was given to its session, where the model sees it with its next step.
func (p *pi) has(id string) {
	p.t.Helper()
	p.await(`SELECT count(*) FROM agent_inbox WHERE read_at <> '' AND message_id = '`+id+`'`, "1")
	p.writes("pi has the message "+id, func(text string) bool {
		return strings.Contains(text, id) || waiting.MatchString(text[strings.LastIndex(text, `"statusKey":"mailroom"`)+1:])
	})
}

// waiting is what pi shows its user where it has messages that the model is to see next.
var waiting = regexp.MustCompile(`mailroom: \d+ new`)

// rests waits until nothing runs in its session, which has come to rest n times.
func (p *pi) rests(n int) {
	p.t.Helper()
	p.writes(fmt.Sprint("it rests for the ", n, ". time"), func(text string) bool {
		return strings.Count(text, `"type":"agent_settled"`) >= n
	})
	p.await(`SELECT count(*) FROM host_sessions WHERE state <> 'idle' AND program = 'pi'`, "0")
}

// TestPiBusy: a message that is sent while a tool runs is in the next request to the model, and read at the end. The
// model has the tools.
func TestPiBusy(t *testing.T) {
	t.Parallel()
	k := piDesk(t)
	p := k.pi()
	p.prompts("Do it.")
	r := p.asks()
	r.shows()
	r.writesTo("mcp__mailroom__", "alice")
	r = p.asks()
	want.Rows(t, k.rows(`SELECT sender FROM agent_message WHERE recipient = 'alice'`), "bob")
	p.getsWhileBusy(r, beside(nil), p.has)
}

// TestPiIdle: a message begins a turn in a session that has done nothing yet, and in one that rests; one that comes
// while the last answer is written goes on with the turn.
func TestPiIdle(t *testing.T) {
	helper.Long(t)
	t.Parallel()
	k := piDesk(t)
	p := k.pi()
	first := k.send("Look at the build.")
	p.reads(first)
	p.rests(1)
	second := k.send("And at the tests.")
	r := p.asks()
	r.shows(first, second)
	third := k.send("And at the docs.")
	r.says("I have.")
	k.read(2)
	p.reads(first, second, third)
}

// TestPiStopped: a message that waits when the user stops the turn, which pi throws away, is shown with what the user
// says next.
func TestPiStopped(t *testing.T) {
	helper.Long(t)
	t.Parallel()
	k := piDesk(t)
	g := k.newGate()
	p := k.pi()
	p.prompts("Do it.")
	p.asks().calls("bash", map[string]any{"command": g.pass()})
	g.reached()
	id := k.send("Look at the build.")
	p.has(id)
	p.tells(map[string]any{"type": "clear_queue"}) // as Esc does
	p.tells(map[string]any{"type": "abort"})
	k.until("the message is unread again", func() bool { return k.standings() == "unread" })
	p.prompts("Go on.")
	r := p.asks()
	if !strings.Contains(r.text(), id) { // it comes with the step after what the user says
		r.says("Yes.")
		r = p.asks()
	}
	r.shows(id)
	r.says("I have.")
	k.read(1)
}

// TestPiKilled: what stands in a session that is killed before its model has answered is not shown again when it is
// gone on with, and read once the model has answered. In another session it is shown.
func TestPiKilled(t *testing.T) {
	helper.Long(t)
	t.Parallel()
	for _, args := range [][]string{{"--continue"}, nil} {
		t.Run(fmt.Sprint(args), func(t *testing.T) {
			t.Parallel()
			k := piDesk(t)
			p := k.pi()
			p.prompts("Hello.")
			p.asks().says("Hello.") // pi writes down a session once its model has answered
			p.rests(1)
			id := k.send("Look at the build.")
			p.asks().shows(id)
			p.kill()
			p = k.pi(args...)
			if args != nil {
				p.prompts("Go on.")
			}
			p.reads(id)
		})
	}
}

// TestPiNew: when its user begins another session in the process, messages come there.
func TestPiNew(t *testing.T) {
	helper.Long(t)
	t.Parallel()
	k := piDesk(t)
	p := k.pi()
	p.prompts("Hello.")
	p.asks().says("Hello.")
	p.rests(1)
	p.tells(map[string]any{"type": "new_session"})
	k.await(`SELECT count(DISTINCT session) FROM host_sessions WHERE program = 'pi'`, "2")
	id := k.send("Look at the build.")
	r := p.asks()
	r.shows(id)
	if strings.Contains(r.text(), "Hello.") {
		t.Error("it came into the session before")
	}
	r.says("I have.")
	k.read(1)
}

// TestPiAuto: each process of pi is an agent of its own.
func TestPiAuto(t *testing.T) {
	helper.Long(t)
	t.Parallel()
	k := piDesk(t, "--as", "auto")
	for i, name := range []string{"pi", "pi-2"} {
		p := k.pi()
		p.prompts("Write to alice.")
		p.asks().writesTo("mcp__mailroom__", "alice")
		p.asks().says("Done.")
		p.rests(1)
		k.await(`SELECT count(*) FROM agent_message WHERE recipient = 'alice' AND sender = '`+name+`'`, "1")
		k.run("send", "--sender", "alice", "--recipient", name, "--message-type", "note", "--payload", fmt.Sprint(i))
		r := p.asks()
		if !strings.Contains(r.text(), "for you, the agent "+name+".") {
			t.Errorf("%s is not shown its message:\n%s", name, r.text())
		}
		r.says("I have.")
	}
}
