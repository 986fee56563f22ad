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

// TestClaudeTwoToolsAtOnce: the second of two tools that were called at once tells nothing of a message shown after the
// first.
func TestClaudeTwoToolsAtOnce(t *testing.T) {
	t.Parallel()
	s := claudeDesk(t).claude()
	s.prompts("Do it.")
	s.worksTwice(s.asks(), "Bash", waitsAt)
}

// TestClaudeStartsAndIdles: what is unread when a session starts is in its first request, and what comes between two
// prompts of the user in the first request after the second.
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

// TestClaudeKilledAfterItsModelAnswered: the session that is resumed does not show again what the model had answered.
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
	r.shows(id) // in the conversation so far
	k.stand("read")
	r.says("Yes.")
	s.ends()
}

// TestClaudeResumedBeforeItsModelAnswered: what stands in the transcript of the session that is resumed is not shown
// anew, and is read once the model answers.
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

// TestClaudeModelFails: what the model could not be asked about, since its server failed, is shown in the next session.
func TestClaudeModelFails(t *testing.T) {
	t.Parallel()
	k := claudeDesk(t)
	id := k.send("Look at the build.")
	s := k.claude()
	s.prompts("Do it.")
	s.in.Close()
	for running := true; running; { // it may try again in other ways
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

// TestClaudeConnected: what `mailroom connect` writes is all that Claude needs: it offers the tools, and shows a busy
// model its messages.
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

// TestClaudeIsNotKeptFromStopping: messages put the end of a turn off five times; then they wait for the user.
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

// TestClaudeSubagent: a message that comes while a subagent works is shown to the session's own model, and not to the
// subagent's.
func TestClaudeSubagent(t *testing.T) {
	t.Parallel()
	s := claudeDesk(t).claude()
	s.prompts("Do it.")
	s.hasSubagent("Agent", map[string]any{"description": "Find it", "prompt": "Find it.", "subagent_type": "general-purpose",
		"run_in_background": false},
		"Bash", map[string]any{"description": "Wait", "timeout": 600_000})
}

// hasSubagent has the model call a tool that begins a subagent, and that use the host's shell, with these arguments beside the
// command. A message that comes meanwhile is shown to the session's own model alone.
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

// TestClaudeThatPrintsEnds: a Claude Code that answers one prompt and ends has nobody waiting, for it would wait for
// that.
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

// TestClaudeHasBothKindsOfMessages: beside Claude Code's own tools for its sessions and teammates, one tool that sends says that
// it is Mailroom's, and the frame of a message asks for that. A model that goes by these words answers by it.
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
