//go:build hosts

package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"mailroom/orchestrator/orchestratortest/want"
)

// TestHostsTwoSessions checks two live sessions of one agent. The second is told about the first when it starts, and
// the first about the second at its user's next prompt, if it accepts one. status lists both, and a message is shown
// in one of them.
func TestHostsTwoSessions(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"claude", "gemini", "qwen", "copilot"} {
		of := seats[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := of.desk(t)
			atFirst, atSecond := k.newGate(), k.newGate()
			first := k.sits()
			r := first.asks()
			if of.says == nil {
				first.worksAt(r, atFirst)
			} else {
				r.says("Done.")
				first.turnEnds()
			}
			one := k.sessions()[0]
			second := k.sits()
			r = second.asks()
			r.tellsOf(one)
			second.worksAt(r, atSecond)
			if of.says != nil {
				first.goesOn("Go on.")
				r = first.asks()
				r.tellsOf(k.sessions()[1])
				first.worksAt(r, atFirst)
			}
			k.statusHas(k.sessions()...)

			k.send("Look at the build.")
			atFirst.open()
			atSecond.open()
			a, b := first.asks(), first.asks() // of both, since they share the model
			want.Equal(t, "messages shown", len(a.shown())+len(b.shown()), 1)
			a.says("Done.")
			b.says("Done.")
			first.ends()
			second.ends()
			k.stand("read")
			want.Rows(t, k.rows(`SELECT count(*) FROM message_trace WHERE event = 'shown'`), "1")
		})
	}
}

// sessions returns the names of bob's sessions, in the order in which they began.
func (k *desk) sessions() []string {
	k.t.Helper()
	return k.rows(`SELECT session FROM host_sessions ORDER BY started_at`)
}

// tellsOf checks that a request mentions another session.
func (r *request) tellsOf(session string) {
	r.t.Helper()
	if !strings.Contains(r.text(), "mailroom: the agent bob also works in the session "+session+".") {
		r.t.Errorf("the model is not told of the session %s:\n%s", session, r.text())
	}
}

// statusHas checks that `mailroom status` lists these sessions of bob, and no others.
func (k *desk) statusHas(sessions ...string) {
	k.t.Helper()
	text, err := json.Marshal(k.run("status"))
	if err != nil {
		k.t.Fatal(err)
	}
	for _, session := range sessions {
		if strings.Count(string(text), fmt.Sprintf(`"session":%q`, session)) != 1 {
			k.t.Errorf("status does not have the session %s:\n%s", session, text)
		}
	}
	want.Equal(k.t, "sessions of status", strings.Count(string(text), `"session":`), len(sessions))
}

// TestHostsToolLongerThanAnyLease checks that a message shown before a tool call that lasts longer than the message's
// lease, which is set back in the database, is not shown again afterwards. Meanwhile no other session gets it, except
// in Codex, where no process proves that the session lives.
func TestHostsToolLongerThanAnyLease(t *testing.T) {
	t.Parallel()
	inEachHost(t, func(t *testing.T, k *desk, of seat) {
		long := k.newGate()
		s := k.sits()
		id, r := s.hearsAtWork(k.mail)
		s.worksAt(r, long)
		switch k.host {
		case "pi": // which reports immediately that its model has answered
			k.read(1)
		case "codex":
			k.leaseEnds(id)
			k.stand("unread")
		default:
			k.leaseEnds(id)
			k.stand("shown")
		}
		long.open()
		r = s.asks()
		r.shows(id)
		s.rests(r) // Copilot CLI may save its model's call of the tool after the hook
		k.await(`SELECT count(*) FROM agent_message WHERE recipient = 'bob' AND read_at <> ''`, "1")
	})
}

// leaseEnds sets back when a message was shown and how long its session may keep it, and makes Mailroom end the
// lease.
func (k *desk) leaseEnds(id string) {
	k.t.Helper()
	k.change(`UPDATE reading_lease SET shown_at = '2026-01-01T00:00:00.000Z', until = '2026-01-02T00:00:00.000Z'
		WHERE message_id = ?`, id)
	k.run("deliver_all")
}

// TestGeminiIsNotKeptFromStopping checks that messages delay the end of a turn five times; then they wait, and
// `gemini -p` ends.
func TestGeminiIsNotKeptFromStopping(t *testing.T) {
	t.Parallel()
	geminiDesk(t).gemini("Do it.").isNotKeptFromStopping()
}

// TestCodexCommandThatGoesOn checks a command that still runs when Codex asks its model. Codex reports the command
// when it has ended. Messages shown before are not shown again, although their lease has ended by then, and new ones
// are shown.
func TestCodexCommandThatGoesOn(t *testing.T) {
	t.Parallel()
	k := codexDesk(t)
	g := k.newGate()
	first := k.send("Look at the build.")
	s := k.codex("Do it.")
	r := s.asks()
	r.shows(first)
	r.calls("exec_command", map[string]any{"cmd": g.pass(), "yield_time_ms": 250})
	r = s.asks()
	g.reached()
	second := k.send("And the docs.")
	k.leaseEnds(first)
	k.stand("unread", "unread")
	found := regexp.MustCompile(`Process running with session ID (\d+)`).FindStringSubmatch(r.text())
	if found == nil {
		t.Fatalf("the command does not go on:\n%s", r.text())
	}
	g.open()
	r.calls("write_stdin", map[string]any{"session_id": json.Number(found[1]), "chars": ""})
	r = s.asks()
	r.shows(first, second)
	k.stand("read", "shown")
	s.finishes(r, "read", "read")
}

// TestOpenCodeIsNotKeptFromStopping checks that messages cause a limited number of turns; then they wait for the
// user, whose next turn shows them.
func TestOpenCodeIsNotKeptFromStopping(t *testing.T) {
	t.Parallel()
	k := openCodeDesk(t)
	k.run("setting", "set", "hook.turns", "3")
	s := k.sits()
	s.asks().says("Hello.")
	s.live.(*openCode).rests()
	var shown []string
	for range 3 {
		shown = append(shown, k.send("One more."))
		r := s.asks()
		r.shows(shown...)
		r.says("Done.")
		k.read(len(shown))
		s.live.(*openCode).rests()
	}
	shown = append(shown, k.send("One too many."))
	s.goesOn("Go on.")
	r := s.asks()
	if !strings.Contains(r.text(), "Go on.") {
		t.Errorf("a message begins a turn too many:\n%s", r.text())
	}
	if len(r.shown()) < len(shown) {
		s.has(shown[3])
		s.works(r, "true")
		r = s.asks()
	}
	r.shows(shown...)
	if !strings.Contains(r.text(), "mailroom: messages caused 3 turns since the last prompt of your user.") {
		t.Errorf("the model is not told of the turns:\n%s", r.text())
	}
	s.rests(r)
}
