//go:build hosts

package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"mailroom/orchestrator/orchestratortest/want"
)

// TestHostsBurst: of two hundred messages that are sent while a tool runs the model sees each once and in order, twenty at a time.
func TestHostsBurst(t *testing.T) {
	t.Parallel()
	inEachHost(t, func(t *testing.T, k *desk, of seat) {
		g := k.newGate()
		s := k.sits()
		s.worksAt(s.asks(), g)
		ids := k.sendMany(200)
		s.has(ids[0])
		g.open()
		r := s.asks()
		if n := len(r.shown()); s.open == nil && (n != 20 || !strings.Contains(r.text(), "mailroom: 180 more messages wait: ")) {
			t.Errorf("the model is shown %d messages first, and told:\n%s", n, r.text())
		}
		for n := 0; len(r.shown()) < len(ids) && !t.Failed(); r = s.asks() {
			before := n
			n = len(r.shown())
			r.showsInOrder(ids[:n]...)
			if n == before {
				s.has(ids[n])
			}
			s.works(r, fmt.Sprint("echo ", n)) // Gemini takes the same call again and again for a loop
		}
		r.showsInOrder(ids...)
		s.rests(r)
		k.stand(slices.Repeat([]string{"read"}, len(ids))...)
	})
}

// TestHostsHostileText: whatever a message says stays in its frame, in each host.
func TestHostsHostileText(t *testing.T) {
	t.Parallel()
	inEachHost(t, func(t *testing.T, k *desk, of seat) {
		g := k.newGate()
		s := k.sits()
		s.worksAt(s.asks(), g)
		id := k.send(hostile)
		s.has(id)
		g.open()
		r := s.asks()
		r.shows(id)
		holdsHostile(t, r)
		s.rests(r)
	})
}

// sendLong has alice write a message of so many bytes to bob, and returns its id and the text.
func (k *desk) sendLong(size int) (id, text string) {
	k.t.Helper()
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, "Line %d of the log.\n", i)
	}
	text = b.String()[:size]
	s, err := k.startSender()
	if err != nil {
		k.t.Fatal(err)
	}
	payload, err := json.Marshal(text)
	if err == nil {
		err = s.say("alice", "bob", string(payload))
	}
	if err != nil {
		k.t.Fatal(err)
	}
	id, ok, err := s.heard()
	if !ok || err != nil {
		k.t.Fatal(ok, err)
	}
	s.in.Close()
	if err := s.cmd.Wait(); err != nil {
		k.t.Fatal(err)
	}
	return id, text
}

// TestHostsLongMessage: a message that in JSON has nearly a mebibyte is shown cut, and names get_message. What that answers is too long for
// each host, which cuts it and goes on.
func TestHostsLongMessage(t *testing.T) {
	t.Parallel()
	inEachHost(t, func(t *testing.T, k *desk, of seat) {
		g := k.newGate()
		s := k.sits()
		s.worksAt(s.asks(), g)
		id, text := k.sendLong(1<<20 - 60_000) // JSON escapes the ends of lines
		s.has(id)
		g.open()
		r := s.asks()
		r.shows(id)
		if !strings.Contains(r.text(), fmt.Sprintf("[4000 of %d characters; get_message %s has all of it]", len(text), id)) {
			t.Errorf("the model is not told how to read all of it:\n%s", r.text())
		}
		r.calls(of.tools+"get_message", map[string]any{"message_id": id})
		s.rests(s.asks())
	})
}

// words are how a vocabulary says a text to somebody.
var words = map[string]func(to, text, thread string) (tool string, arguments map[string]any){
	"relay": func(to, text, _ string) (string, map[string]any) {
		return "send_message", map[string]any{"target": to, "message_type": "STATUS", "message": text}
	},
	"team": func(to, text, _ string) (string, map[string]any) {
		return "SendMessage", map[string]any{"to": to, "message": text}
	},
	"coral": func(to, text, thread string) (string, map[string]any) {
		return "send_message", map[string]any{"threadId": thread, "content": text, "mentions": []string{to}}
	},
}

// TestHostsConverse: alice in Claude Code and bob in OpenCode, in the same folder and with nothing but what connect has written, tell each
// other ten messages in the words of each vocabulary. Each is woken by what the other says, and its model is shown each message
// once, in its frame and in order.
func TestHostsConverse(t *testing.T) {
	t.Parallel()
	for vocabulary, speak := range words {
		t.Run(vocabulary, func(t *testing.T) {
			t.Parallel()
			b := bareOpenCodeDesk(t)
			b.connects("--as", "bob", "--vocabulary", vocabulary)
			a := &desk{
				office: b.office, folder: b.folder, host: "claude", program: hostProgram(t, "@anthropic-ai/claude-code-linux-x64/claude"),
				model: newModel(t, anthropic),
			}
			a.connects("--as", "alice", "--vocabulary", vocabulary)
			thread := ""
			if vocabulary == "coral" {
				thread = a.run("coral", "create-thread", "--as", "alice", "--thread-name", "The build", "--participant-ids", "bob")["threadId"].(string)
			}
			open := b.openCode()
			alice := a.start(a.claudeEnv(), "-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose")
			alice.prompts("Talk to bob.")

			speaker, listener, prefix, to := alice, open.session, "mcp__mailroom__", "bob"
			otherPrefix, other := "mailroom_", "alice"
			var heard, willHear []string // by the speaker and the listener
			for n := range 10 {
				r := speaker.asks()
				r.showsInOrder(heard...)
				tool, arguments := speak(to, fmt.Sprintf("This is number %d.", n), thread)
				r.calls(prefix+tool, arguments)
				r = speaker.asks()
				r.showsInOrder(heard...)
				said := b.rows(`SELECT message_id FROM agent_message WHERE recipient = '` + to + `' ORDER BY rowid`)
				if len(said) != len(willHear)+1 {
					t.Fatalf("%s has got %q; the model is told\n%s", to, said, r.text())
				}
				willHear = said
				r.says("I have told it.")
				speaker, listener, prefix, otherPrefix, to, other, heard, willHear = listener, speaker, otherPrefix, prefix, other, to, willHear, heard
			}
			r := speaker.asks()
			r.showsInOrder(heard...)
			r.says("Good.")
			b.await(`SELECT count(*) FROM agent_message WHERE recipient IN ('alice', 'bob') AND read_at <> ''`, "10")
			want.Rows(t, b.rows(`SELECT message_id FROM message_trace WHERE event = 'shown' GROUP BY message_id HAVING count(*) > 1`))
		})
	}
}
