//go:build hosts

package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
)

// interrupts ends the turn as the user of Claude Code does with Esc, and waits until it has ended.
func (s *sitting) interrupts() {
	s.t.Helper()
	if _, err := fmt.Fprintln(s.in,
		`{"type":"control_request","request_id":"esc","request":{"subtype":"interrupt"}}`); err != nil {
		s.t.Fatal(err)
	}
	s.until("the turn ends", func() bool { return s.over(s) })
	s.turns++
}

// TestClaudeInterruptedModel checks that if the user ends a turn while the model processes a message, the message
// stays in the conversation, and is read after the model's next answer.
func TestClaudeInterruptedModel(t *testing.T) {
	t.Parallel()
	k := claudeDesk(t)
	s := k.sits()
	id, _ := s.hearsAtWork(k.mail)
	s.interrupts()
	k.stand("shown")
	s.goesOn("Go on.")
	r := s.asks()
	r.shows(id)
	k.stand("shown")
	s.rests(r)
	want.Rows(t, k.rows(`SELECT count(*) FROM message_trace WHERE event = 'shown'`), "1")
}

// TestClaudeInterruptedHook checks a turn that the user ends after a hook has written its output and before Claude
// Code has accepted it, so that the output is discarded. The message is shown again: with the user's next prompt or,
// if that comes so soon that the transcript may only be late, at the end of its turn.
func TestClaudeInterruptedHook(t *testing.T) {
	t.Parallel()
	for _, event := range []string{"PostToolUse", "UserPromptSubmit"} {
		for _, soon := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s soon=%t", event, soon), func(t *testing.T) {
				t.Parallel()
				k := claudeDesk(t)
				g := k.newGate()
				k.hooked = fmt.Sprintf("hook; if [ -e $EVENT.held ]; then %s; fi", g.pass())
				s := k.sits()
				id := s.showsAtHeldHook(event, g)
				s.interrupts()
				k.stand("shown")
				g.open()
				if !soon {
					k.longAgo(id)
				}
				s.goesOn("Go on.")
				r := s.asks()
				if soon && len(r.shown()) == 0 { // on a slow machine it was not so soon
					r.says("Gone on.")
					r = s.asks()
				}
				r.shows(id)
				s.rests(r)
				want.Rows(t, k.rows(`SELECT count(*) FROM message_trace WHERE event = 'shown'`), "2")
			})
		}
	}
}

// TestOpenCodeAbortedTool checks that if the user ends a turn while a tool runs and a message waits for the model,
// the message stays in the session, and is read after the model's next answer.
func TestOpenCodeAbortedTool(t *testing.T) {
	t.Parallel()
	k := openCodeDesk(t)
	g := k.newGate()
	s := k.sits()
	s.worksAt(s.asks(), g)
	id := k.send("Look at the build.")
	s.has(id)
	o := s.live.(*openCode)
	o.asked(http.MethodPost, "/session/"+o.id+"/abort", map[string]any{})
	k.stand("shown")
	s.goesOn("Go on.")
	r := s.asks()
	r.shows(id)
	s.rests(r)
	want.Rows(t, k.rows(`SELECT count(*) FROM message_trace WHERE event = 'shown'`), "1")
}

// TestGeminiInterrupted checks that messages that the model had not answered when `gemini -p` was interrupted are
// shown in the next session, even one that resumes the conversation, which contains them already.
func TestGeminiInterrupted(t *testing.T) {
	t.Parallel()
	for _, resumed := range []bool{false, true} {
		t.Run(fmt.Sprint("resumed=", resumed), func(t *testing.T) {
			t.Parallel()
			k := geminiDesk(t)
			s := k.sits()
			id, _ := s.hearsAtWork(k.mail)
			k.stand("shown")
			if err := s.cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			<-s.ended
			if resumed {
				s.session = k.runGemini(nil, "-p", "Go on.", "--skip-trust", "-y", "-m", "gemini-2.5-flash", "--resume",
					"latest")
			} else {
				s.goesOn("Go on.")
			}
			r := s.asks()
			if !resumed {
				r.shows(id)
			} else if len(r.shown()) == 0 { // or more than once: Gemini may repeat the tool result that contains it
				t.Error("the model is not shown the message")
			}
			s.rests(r)
			want.Rows(t, k.rows(`SELECT count(*) FROM message_trace WHERE event = 'shown'`), "2")
		})
	}
}

// showsAtHeldHook makes the hook of an event show a message and then wait at a gate. It returns the message's ID.
func (s *sitting) showsAtHeldHook(event string, g *gate) (id string) {
	s.t.Helper()
	r := s.asks()
	if event == "PostToolUse" {
		work := s.newGate()
		s.worksAt(r, work)
		id = s.send("Look at the build.")
		s.write(event+".held", "")
		work.open()
	} else {
		r.says("Done.")
		s.turnEnds()
		id = s.send("Look at the build.")
		s.write(event+".held", "")
		s.goesOn("Do more.")
	}
	g.reached()
	s.stand("shown")
	if err := os.Remove(filepath.Join(s.folder, event+".held")); err != nil {
		s.t.Fatal(err)
	}
	return id
}

// longAgo sets the time at which a message was shown back, so that no transcript can still be late.
func (k *desk) longAgo(id string) {
	k.t.Helper()
	k.change(`UPDATE reading_lease SET shown_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', '-1 minute')
		WHERE message_id = ?`, id)
}

// change changes one row by hand.
func (k *desk) change(statement string, args ...any) {
	k.t.Helper()
	db := enginetest.Plain(k.t, k.db)
	defer db.Close()
	changed, err := db.Exec(statement, args...)
	if err != nil {
		k.t.Fatal(err)
	}
	if n, err := changed.RowsAffected(); err != nil || n != 1 {
		k.t.Fatalf("%s: %d rows, %v", statement, n, err)
	}
}
