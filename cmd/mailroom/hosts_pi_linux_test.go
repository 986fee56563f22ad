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

// piDesk returns a desk with pi, connected by mailroom connect as bob, or with the given arguments.
func piDesk(t *testing.T, as ...string) *desk {
	t.Helper()
	if as == nil {
		as = []string{"--as", "bob"}
	}
	return barePiDesk(t).connects(as...)
}

// barePiDesk returns a desk with pi that is not connected to Mailroom.
func barePiDesk(t *testing.T) *desk {
	t.Helper()
	k := newDesk(t, "pi", "@earendil-works/pi-coding-agent/dist/bundle/cli.js", completions)
	k.runsInNode()
	k.readiesPi()
	return k
}

// readiesPi writes the files that pi requires of its user.
func (k *desk) readiesPi() {
	k.t.Helper()
	k.write(".pi/agent/models.json", map[string]any{"providers": map[string]any{"mock": map[string]any{
		"baseUrl": k.model.server.URL + "/v1", "api": "openai-completions", "apiKey": "none",
		"models": []any{map[string]any{"id": "mock", "name": "Mock"}},
	}}})
	k.write(".pi/agent/settings.json", map[string]any{"defaultProvider": "mock", "defaultModel": "mock"})
}

// pi is pi controlled by another program: it reads one JSON object per line.
type pi struct{ *session }

// pi starts pi in the folder, which it trusts, with additional arguments.
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

// prompts sends a prompt of the user.
func (p *pi) prompts(text string) {
	p.t.Helper()
	p.tells(map[string]any{"type": "prompt", "message": text})
}

// has waits until the message was passed to the session, where the model sees it with its next step.
func (p *pi) has(id string) {
	p.t.Helper()
	p.await(`SELECT count(*) FROM agent_inbox WHERE read_at <> '' AND message_id = '`+id+`'`, "1")
	p.writes("pi has the message "+id, func(text string) bool {
		return strings.Contains(text, id) || waiting.MatchString(text[strings.LastIndex(text, `"statusKey":"mailroom"`)+1:])
	})
}

// waiting matches the text that pi shows its user if there are messages for the model's next step.
var waiting = regexp.MustCompile(`mailroom: \d+ new`)

// rests waits until the session has become idle n times.
func (p *pi) rests(n int) {
	p.t.Helper()
	p.writes(fmt.Sprint("it rests for the ", n, ". time"), func(text string) bool {
		return strings.Count(text, `"type":"agent_settled"`) >= n
	})
	p.await(`SELECT count(*) FROM host_sessions WHERE state <> 'idle' AND program = 'pi'`, "0")
}

// TestPiBusy checks that a message sent while a tool runs is in the next request to the model, and read at the end.
// The model has the tools.
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

// TestPiIdle checks that a message starts a turn in a session without a turn so far, and in an idle one, and that a
// message that arrives during the last answer continues the turn.
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

// TestPiStopped checks that a message that waits when the user stops the turn, so that pi discards it, is shown with
// the user's next prompt.
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
	if !strings.Contains(r.text(), id) { // it comes with the step after the prompt
		r.says("Yes.")
		r = p.asks()
	}
	r.shows(id)
	r.says("I have.")
	k.read(1)
}

// TestPiKilled checks a session that is killed before its model has answered. If the session is continued, its
// messages are not shown again, and are read after the model has answered. In another session they are shown.
func TestPiKilled(t *testing.T) {
	helper.Long(t)
	t.Parallel()
	for _, args := range [][]string{{"--continue"}, nil} {
		t.Run(fmt.Sprint(args), func(t *testing.T) {
			t.Parallel()
			k := piDesk(t)
			p := k.pi()
			p.prompts("Hello.")
			p.asks().says("Hello.") // pi saves a session once its model has answered
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

// TestPiNew checks that if the user starts another session in the process, messages go to that one.
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

// TestPiAuto checks that each process of pi is a separate agent.
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
