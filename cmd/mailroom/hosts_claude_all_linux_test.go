//go:build hosts

package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator/orchestratortest/want"
)

// TestClaudeTwoToolsAtOnce checks that the end of the second of two tools called at the same time does not mark a
// message as read that was shown after the first.
func TestClaudeTwoToolsAtOnce(t *testing.T) {
	t.Parallel()
	s := claudeDesk(t).claude()
	s.prompts("Do it.")
	s.worksTwice(s.asks(), "Bash", waitsAt)
}

// TestClaudeStartsAndIdles checks that unread messages at the start of a session are in its first request, and that
// messages between two prompts of the user are in the first request after the second.
func TestClaudeStartsAndIdles(t *testing.T) {
	t.Parallel()
	k := claudeDesk(t)
	first := k.send("Before you came.")
	s := k.claude()
	s.prompts("Do it.")
	r := s.asks()
	r.shows(first)
	r.says("Done.")
	k.await(`SELECT state FROM host_sessions`, "idle")
	k.stand("read")
	second := k.send("While you did nothing.")
	s.prompts("Go on.")
	r = s.asks()
	r.shows(first, second)
	k.stand("read", "shown")
	s.finishes(r, "read", "read")
	if state := k.rows(`SELECT state FROM host_sessions`); len(state) != 1 || state[0] != "ended" {
		t.Errorf("the session is %q", state)
	}
}

// TestClaudeKilledAfterItsModelAnswered checks that a resumed session does not show messages again that the model had
// answered.
func TestClaudeKilledAfterItsModelAnswered(t *testing.T) {
	t.Parallel()
	k := claudeDesk(t)
	s := k.claude()
	s.prompts("Do it.")
	id, r := s.hears(s.asks(), "Bash", waitsAt, k.mail)
	second := k.newGate()
	r.calls("Bash", waitsAt(second))
	second.reached()
	k.stand("shown")
	k.until("Claude has written down what its model answered", func() bool {
		return bytes.Contains(k.transcript(".claude/projects", id), []byte("toolu_2"))
	})
	s.kill()

	s = k.claude("--resume", k.rows(`SELECT session FROM host_sessions`)[0])
	s.prompts("Are you there?")
	r = s.asks()
	r.shows(id) // in the earlier conversation
	k.stand("read")
	r.says("Yes.")
	s.ends()
}

// TestClaudeResumedBeforeItsModelAnswered checks that messages in the transcript of a resumed session are not shown
// again, and are read once the model answers.
func TestClaudeResumedBeforeItsModelAnswered(t *testing.T) {
	t.Parallel()
	k := claudeDesk(t)
	id := k.send("Look at the build.")
	s := k.claude()
	s.prompts("Do it.")
	s.asks().shows(id)
	k.until("Claude has written down what its model is shown", func() bool {
		return bytes.Contains(k.transcript(".claude/projects", id), []byte(`<mailroom-message id=\"`+id))
	})
	s.kill()

	s = k.claude("--resume", k.rows(`SELECT session FROM host_sessions`)[0])
	s.prompts("Are you there?")
	r := s.asks()
	r.shows(id)
	k.stand("shown")
	s.finishes(r, "read")
	if shown := k.rows(`SELECT error FROM message_trace WHERE event = 'shown'`); len(shown) != 1 {
		t.Errorf("it is shown anew: %q", shown)
	}
}

// TestClaudeModelFails checks that messages that did not reach the model because its server failed are shown in the
// next session.
func TestClaudeModelFails(t *testing.T) {
	t.Parallel()
	k := claudeDesk(t)
	id := k.send("Look at the build.")
	s := k.claude()
	s.prompts("Do it.")
	s.in.Close()
	for running := true; running; { // it may retry in other ways
		select {
		case r := <-k.model.requests:
			r.shows(id)
			r.fails()
		case <-s.ended:
			running = false
		case <-time.After(patience):
			t.Fatal("the host does not end")
		}
	}
	k.stand("unread")

	s = k.claude()
	s.prompts("Do it.")
	r := s.asks()
	r.shows(id)
	s.finishes(r, "read")
}

// TestClaudeConnected checks that Claude needs only the files that `mailroom connect` writes to offer the tools and
// to show a busy model its messages.
func TestClaudeConnected(t *testing.T) {
	t.Parallel()
	k := claudeDesk(t).connects("--as", "bob")
	s := k.start(k.claudeEnv(), "-p", "Do it.", "--allowed-tools", "Bash")
	s.in.Close()
	r := s.asks()
	r.shows()
	id, r := s.hears(r, "Bash", waitsAt, k.mail)
	r.writesTo("mcp__mailroom__", "alice")
	r = s.asks()
	r.shows(id)
	s.finishes(r, "read")
	if got := k.rows(`SELECT sender FROM agent_message WHERE recipient = 'alice'`); len(got) != 1 || got[0] != "bob" {
		t.Errorf("messages to alice: %q; the model is told\n%s", got, r.text())
	}
}

// TestClaudeIsNotKeptFromStopping checks that messages delay the end of a turn five times, and then wait for the
// user.
func TestClaudeIsNotKeptFromStopping(t *testing.T) {
	t.Parallel()
	k := claudeDesk(t)
	s := k.claude()
	s.prompts("Do it.")
	var shown []string
	for range 6 {
		r := s.asks()
		r.shows(shown...)
		shown = append(shown, k.send("One more."))
		r.says("Done.")
	}
	k.await(`SELECT state FROM host_sessions`, "idle")
	k.stand("read", "read", "read", "read", "read", "unread")
	s.prompts("Go on.")
	r := s.asks()
	r.shows(shown...)
	r.says("Done.")
	s.ends()
}

// TestClaudeSubagent checks that a message that arrives while a subagent works is shown to the session's own model,
// and not to the subagent's.
func TestClaudeSubagent(t *testing.T) {
	t.Parallel()
	s := claudeDesk(t).claude()
	s.prompts("Do it.")
	s.hasSubagent("Agent", map[string]any{"description": "Find it", "prompt": "Find it.", "subagent_type": "general-purpose",
		"run_in_background": false},
		"Bash", map[string]any{"description": "Wait", "timeout": 600_000})
}

// hasSubagent makes the model call a tool that starts a subagent, and makes the subagent use the host's shell, with
// these arguments in addition to the command. A message that arrives meanwhile must be shown only to the session's
// own model.
func (s *session) hasSubagent(begins string, with map[string]any, shell string, arguments map[string]any) {
	s.t.Helper()
	g := s.newGate()
	s.asks().calls(begins, with)
	s.asks().calls(shell, beside(arguments)(g))
	g.reached()
	id := s.send("Look at the build.")
	g.open()
	inner := s.asks()
	inner.shows()
	inner.says("Found.")
	r := s.asks()
	r.shows(id)
	s.finishes(r, "read")
}

// TestClaudeThatPrintsEnds checks that no process waits to wake a Claude Code that answers one prompt and ends,
// because Claude Code would wait for that process.
func TestClaudeThatPrintsEnds(t *testing.T) {
	t.Parallel()
	k := claudeDesk(t)
	k.wakes = true
	settings := k.write("settings.json", map[string]any{"hooks": k.hookSettings()})
	s := k.start(k.claudeEnv(), "-p", "Hello.", "--settings", settings, "--strict-mcp-config")
	s.in.Close()
	s.asks().says("Hello.")
	s.ends()
	if waiting := k.rows(`SELECT 1 FROM host_sessions WHERE waiter_pid > 0`); len(waiting) > 0 {
		t.Error("a process has waited for the session")
	}
}

// TestClaudeHasBothKindsOfMessages checks that among Claude Code's own tools for its sessions and teammates, one
// sending tool is described as Mailroom's, and that the frame of a message asks for it. A model that follows this
// text answers with it.
func TestClaudeHasBothKindsOfMessages(t *testing.T) {
	t.Parallel()
	k := claudeDesk(t).connects("--as", "bob")
	id := k.send("Is the build well?")
	s := k.start(k.claudeEnv(), "-p", "Do it.")
	s.in.Close()
	r := s.asks()
	r.shows(id)
	if !r.offers("ListAgents") || !strings.Contains(r.text(), "Answer with Mailroom's tools.") {
		t.Errorf("the model is offered %q, and told\n%s", r.tools(r.body), r.text())
	}
	var senders []string
	for _, tool := range r.body["tools"].([]any) {
		tool, _ := tool.(map[string]any)
		if about := fmt.Sprint(tool["description"]); strings.Contains(about, "Mailroom") && strings.Contains(about, "Send a message") {
			senders = append(senders, fmt.Sprint(tool["name"]))
		}
	}
	want.Rows(t, senders, "mcp__mailroom__send_message")
	r.calls(senders[0], map[string]any{"target": "alice", "message_type": "RESULT", "message": "It is."})
	r = s.asks()
	want.Rows(t, k.rows(`SELECT sender FROM agent_message WHERE recipient = 'alice'`), "bob")
	r.says("Done.")
	s.ends()
}
