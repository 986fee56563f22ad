package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"mailroom/orchestrator/orchestratortest/helper"
)

// claudeDesk returns a desk with Claude Code.
func claudeDesk(t *testing.T) *desk {
	t.Helper()
	return newDesk(t, "claude", "@anthropic-ai/claude-code-linux-x64/claude", anthropic,
		"SessionStart", "UserPromptSubmit", "PostToolUse", "PostToolUseFailure", "Stop", "SessionEnd")
}

// claude starts Claude Code, with tools if the desk has a vocabulary. Its user's prompts come from prompts.
func (k *desk) claude(args ...string) *session {
	k.t.Helper()
	settings := k.write("settings.json",
		map[string]any{"hooks": k.hookSettings(),
			"permissions": map[string]any{"allow": []string{"Bash", "mcp__mailroom"}}})
	if k.speaks != "" {
		command, words := k.server()
		server := map[string]any{"command": command, "args": words, "alwaysLoad": true}
		args = append(args, "--mcp-config",
			k.write("mcp.json", map[string]any{"mcpServers": map[string]any{"mailroom": server}}))
	}
	return k.start(k.claudeEnv(), append([]string{
		"-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose", "--settings", settings,
		"--strict-mcp-config",
	}, args...)...)
}

// claudeEnv makes Claude Code use the test's model, and contact no other server.
func (k *desk) claudeEnv() []string {
	env := []string{
		"ANTHROPIC_BASE_URL=" + k.model.server.URL, "ANTHROPIC_API_KEY=sk-none", "DISABLE_AUTOUPDATER=1",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
	}
	if k.limit > 0 {
		env = append(env, fmt.Sprintf("MCP_TOOL_TIMEOUT=%d", 1000*k.limit))
	}
	return env
}

// prompts sends a prompt of the user to Claude Code.
func (s *session) prompts(text string) {
	s.t.Helper()
	line, err := json.Marshal(map[string]any{"type": "user",
		"message": map[string]any{"role": "user", "content": text}})
	if err == nil {
		_, err = fmt.Fprintf(s.in, "%s\n", line)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// waitsAt returns the arguments of Claude's shell tool for a command that waits at a gate.
func waitsAt(g *gate) map[string]any {
	return map[string]any{"command": g.pass(), "description": "Wait", "timeout": 600_000}
}

// TestClaudeBusy checks that a message sent while the model's tool runs is in the next request to the model, and read
// at the end.
func TestClaudeBusy(t *testing.T) {
	t.Parallel()
	k := claudeDesk(t)
	k.hooked = k.recording()
	s := k.claude()
	s.prompts("Do it.")
	s.isBusyAndSampled("Bash", waitsAt, ".claude/projects")
}

// TestClaudeKilledBeforeItsModelAnswers checks that the next session shows unanswered messages once, whether Claude
// was killed before its model was asked or before the model answered.
func TestClaudeKilledBeforeItsModelAnswers(t *testing.T) {
	t.Parallel()
	for _, asked := range []bool{false, true} {
		t.Run(fmt.Sprint("asked=", asked), func(t *testing.T) {
			t.Parallel()
			k := claudeDesk(t)
			work, answered := k.newGate(), k.newGate()
			if !asked {
				k.hooked = fmt.Sprintf("hook; if [ $EVENT = PostToolUse ]; then %s; fi", answered.pass())
			}
			s := k.claude()
			s.prompts("Do it.")
			s.asks().calls("Bash", waitsAt(work))
			work.reached()
			id := k.send("Look at the build.")
			work.open()
			if asked {
				s.asks().shows(id)
			} else {
				answered.reached()
			}
			k.stand("shown")
			s.kill()

			k.hooked = ""
			s = k.claude()
			s.prompts("Are you there?")
			r := s.asks()
			r.shows(id)
			r.says("Yes.")
			k.await(`SELECT count(*) FROM host_sessions WHERE state = 'idle'`, "1")
			s.prompts("Still?")
			r = s.asks()
			r.shows(id)
			s.finishes(r, "read")
		})
	}
}

// TestClaudeTools checks that Claude's model is offered the tools of `mailroom mcp`, and can send a message with
// them.
func TestClaudeTools(t *testing.T) {
	helper.Long(t)
	t.Parallel()
	k := claudeDesk(t)
	k.speaks = "relay"
	s := k.claude()
	s.prompts("Do it.")
	s.hasTools("mcp__mailroom__")
}

// TestClaudeStarted checks that `mailroom claude` connects a project and becomes Claude Code. Its model has the tools
// promised in the README, gets the advice for its user when no question can reach a phone, and gets messages.
func TestClaudeStarted(t *testing.T) {
	t.Parallel()
	k := claudeDesk(t)
	programs := filepath.Join(k.folder, "bin")
	if err := errors.Join(os.Mkdir(programs, 0o700), os.Symlink(k.program, filepath.Join(programs, "claude"))); err != nil {
		t.Fatal(err)
	}
	k.program = k.mailroom()
	s := k.start(append(k.claudeEnv(), "PATH="+programs+":"+os.Getenv("PATH"), "MAILROOM_DB="+k.db),
		"claude", "--as", "bob", "--yes", "--", "-p", "Do it.", "--allowed-tools", "Bash")
	s.in.Close()
	r := s.asks()
	r.hasOffered("mcp__mailroom__", "send_message", "get_messages", "get_message", "release", "ask_question", "get_response",
		"send_alert")
	r.calls("mcp__mailroom__ask_question", map[string]any{"question": "Shall I deploy?"})
	r = s.asks()
	if told := r.text(); !strings.Contains(told, "Tell the person who runs you: Pair a phone") {
		t.Errorf("of a question that reaches nobody the model is told\n%s", told)
	}
	_, r = s.hears(r, "Bash", waitsAt, k.mail)
	s.finishes(r, "read")
}
