//go:build hosts

package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"

	"mailroom/commands"
	"mailroom/orchestrator"
	"mailroom/orchestrator/orchestratortest/want"
)

// TestHostsBurst checks that of two hundred messages sent while a tool runs, the model sees each once and in order,
// twenty at a time.
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
		if n := len(r.shown()); s.live == nil &&
			(n != 20 || !strings.Contains(r.text(), "mailroom: 180 more messages wait. ")) {
			t.Errorf("the model is shown %d messages first, and told:\n%s", n, r.text())
		}
		for n := 0; len(r.shown()) < len(ids) && !t.Failed(); r = s.asks() {
			before := n
			n = len(r.shown())
			r.showsInOrder(ids[:n]...)
			if n == before {
				s.has(ids[n])
			}
			s.works(r, fmt.Sprint("echo ", n)) // different each time, because Gemini treats repeated calls as a loop
		}
		r.showsInOrder(ids...)
		s.rests(r)
		k.stand(slices.Repeat([]string{"read"}, len(ids))...)
	})
}

// TestHostsHostileText checks that the text of a message stays in its frame, in each host.
func TestHostsHostileText(t *testing.T) {
	t.Parallel()
	inEachHost(t, func(t *testing.T, k *desk, of seat) {
		s := k.sits()
		_, r := s.hearsAtWork(func() string { return k.send(hostile) })
		holdsHostile(t, r)
		s.rests(r)
	})
}

// numbered returns a text of lines, each with its number.
func numbered(line string, lines int) string {
	var b strings.Builder
	for i := range lines {
		fmt.Fprintf(&b, line, i)
	}
	return b.String()
}

// sendLong sends a text from alice to bob that is too long for a command line, and returns the message's ID.
func (k *desk) sendLong(text string) (id string) {
	k.t.Helper()
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
	return id
}

// TestHostsLongMessage checks that a message of about 60,000 characters is shown truncated, and that the model can
// read the rest in parts, as described in each answer, which arrive complete.
func TestHostsLongMessage(t *testing.T) {
	t.Parallel()
	inEachHost(t, func(t *testing.T, k *desk, of seat) {
		text := numbered("Line %05d says \"grün\", C:\\日本, and 😀.\n", 1600)
		s := k.sits()
		id, r := s.hearsAtWork(func() string { return k.sendLong(text) })
		shown := commands.FirstUnits(text, 4000)
		if k.host == "codex" { // which counts bytes
			shown = strings.ToValidUTF8(text[:4000], "")
		}
		rest := commands.Units(shown)
		begun := fmt.Sprintf("\n[characters 0 to %d of %d; to read the next part, call get_message with message_id %s and offset %d]\n", rest-1, commands.Units(text), id, rest)
		if !strings.Contains(r.text(), shown+begun) {
			t.Errorf("the model is not shown the beginning and how to read on:\n%s", r.text())
		}
		for next := strconv.Itoa(rest); next != ""; {
			offset, _ := strconv.Atoi(next)
			r.calls(s.tools+"get_message", map[string]any{"message_id": id, "offset": offset})
			r = s.asks()
			next = r.hasPart(id, text, offset)
		}
		s.rests(r)
	})
}

// TestHostsLongestMessage checks that the model can read the first and the last part of a message of nearly a
// mebibyte in JSON. It also gets the first part if it asks for the whole message.
func TestHostsLongestMessage(t *testing.T) {
	t.Parallel()
	inEachHost(t, func(t *testing.T, k *desk, of seat) {
		text := numbered("Line %07d of the log.\n", 40_000)
		s := k.sits()
		id, r := s.hearsAtWork(func() string { return k.sendLong(text) })
		r.calls(of.tools+"get_message", map[string]any{"message_id": id})
		r = s.asks()
		r.hasPart(id, text, 0)
		r.calls(of.tools+"get_message", map[string]any{"message_id": id, "offset": len(text) - 1000})
		r = s.asks()
		want.Equal(t, "the next part begins at", r.hasPart(id, text, len(text)-1000), "")
		s.rests(r)
	})
}

// hasPart checks that a request contains the complete part of a message that begins at an offset, and returns where
// the next part begins, or "".
func (r *request) hasPart(id, text string, offset int) (next string) {
	r.t.Helper()
	characters := utf16.Encode([]rune(text))
	told := r.text()
	found := regexp.MustCompile(fmt.Sprintf(
		`"part":"characters %d to (\d+) of %d; (?:this is the end|to read the next part, call get_message with message_id %s and offset (\d+))"`,
		offset, len(characters), id)).FindStringSubmatch(told)
	if found == nil {
		r.t.Fatalf("the model is not told which part it reads:\n%s", told)
	}
	last, _ := strconv.Atoi(found[1])
	part := orchestrator.JSONString(string(utf16.Decode(characters[offset : last+1])))
	if !strings.Contains(told, string(part)) {
		r.t.Fatalf("the part is cut:\n%s", told)
	}
	if found[2] != "" || last != len(characters)-1 {
		want.Equal(r.t, "the next part begins at", found[2], fmt.Sprint(last+1))
	}
	return found[2]
}

// words returns the tool call with which each vocabulary sends a text.
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

// TestHostsConverse runs alice in Claude Code and bob in OpenCode, in the same folder and only with the files that
// connect wrote. They send each other ten messages in each vocabulary. Each is woken by the other's messages, and its
// model is shown each message once, in its frame and in order.
func TestHostsConverse(t *testing.T) {
	t.Parallel()
	for vocabulary, speak := range words {
		t.Run(vocabulary, func(t *testing.T) {
			t.Parallel()
			b := bareOpenCodeDesk(t)
			b.connects("--as", "bob", "--vocabulary", vocabulary)
			a := &desk{
				office: b.office, folder: b.folder, host: "claude",
				program: hostProgram(t, "@anthropic-ai/claude-code-linux-x64/claude"),
				model:   newModel(t, anthropic),
			}
			a.connects("--as", "alice", "--vocabulary", vocabulary)
			thread := ""
			if vocabulary == "coral" {
				thread = a.run("coral", "create-thread", "--as", "alice", "--thread-name", "The build",
					"--participant-ids", "bob")["threadId"].(string)
			}
			open := b.openCode()
			alice := a.start(a.claudeEnv(), "-p", "--input-format", "stream-json", "--output-format", "stream-json",
				"--verbose")
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
				said := b.rows(`SELECT message_id FROM agent_message WHERE recipient = '` + to + `' ORDER BY seq`)
				if len(said) != len(willHear)+1 {
					t.Fatalf("%s has got %q; the model is told\n%s", to, said, r.text())
				}
				willHear = said
				r.says("I have told it.")
				speaker, listener, prefix, otherPrefix, to, other, heard, willHear = listener, speaker, otherPrefix,
					prefix, other, to, willHear, heard
			}
			r := speaker.asks()
			r.showsInOrder(heard...)
			r.says("Good.")
			b.await(`SELECT count(*) FROM agent_message WHERE recipient IN ('alice', 'bob') AND read_at <> ''`, "10")
			want.Rows(t, b.rows(`SELECT message_id FROM message_trace WHERE event = 'shown' GROUP BY message_id
				HAVING count(*) > 1`))
		})
	}
}
