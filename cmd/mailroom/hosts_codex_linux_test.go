package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"mailroom/orchestrator/orchestratortest/helper"
)

// codexDesk returns a desk with Codex.
func codexDesk(t *testing.T) *desk {
	t.Helper()
	return newDesk(t, "codex", "@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex", openai,
		"SessionStart", "UserPromptSubmit", "PostToolUse", "Stop")
}

// codexModel returns the part of Codex's configuration that selects the test's model.
func (k *desk) codexModel() string {
	return fmt.Sprintf(`model = "gpt-5.2-codex"
model_provider = "test"
model_providers.test = { name = "test", base_url = "%s/v1", wire_api = "responses", requires_openai_auth = false }`,
		k.model.server.URL)
}

// codex starts `codex exec` with these arguments. Its tools run without Codex's sandbox, which not every machine
// supports.
func (k *desk) codex(args ...string) *session {
	k.t.Helper()
	k.write(".codex/hooks.json", map[string]any{"hooks": k.hookSettings()})
	command, words := k.server()
	list, err := json.Marshal(words) // a list of strings has the same form in TOML
	if err != nil {
		k.t.Fatal(err)
	}
	k.write(".codex/config.toml", fmt.Sprintf(`%s
sandbox_mode = "danger-full-access"
approval_policy = "never"
[features]
hooks = true
[mcp_servers.mailroom]
command = %q
args = %s
tool_timeout_sec = %d
default_tools_approval_mode = "approve"
`, k.codexModel(), command, list, cmp.Or(k.limit, 120)))
	s := k.start(nil, append([]string{"exec", "--dangerously-bypass-hook-trust", "--skip-git-repo-check"}, args...)...)
	s.in.Close()
	return s
}

// comesTo returns the arguments of Codex's shell tool for a command that waits at a gate.
func comesTo(g *gate) map[string]any {
	return map[string]any{"cmd": g.pass(), "yield_time_ms": 30_000}
}

// TestCodexBusy checks that a message sent while the model's tool runs is in the next request to the model, and read
// at the end.
func TestCodexBusy(t *testing.T) {
	t.Parallel()
	k := codexDesk(t)
	k.hooked = k.recording()
	k.codex("Do it.").isBusyAndSampled("exec_command", comesTo, ".codex/sessions")
}

// TestCodexStarts checks that unread messages at the start of a session are in its first request, within their frame.
func TestCodexStarts(t *testing.T) {
	helper.Long(t)
	t.Parallel()
	k := codexDesk(t)
	id := k.send(hostile)
	s := k.codex("Do it.")
	r := s.asks()
	r.shows(id)
	holdsHostile(t, r)
	s.finishes(r, "read")
}

// TestCodexKilled checks that a resumed session shows once the messages that its model had not answered when Codex
// was killed, and no others.
func TestCodexKilled(t *testing.T) {
	t.Parallel()
	for _, answered := range []bool{false, true} {
		t.Run(fmt.Sprint("answered=", answered), func(t *testing.T) {
			t.Parallel()
			k := codexDesk(t)
			s := k.codex("Do it.")
			id, r := s.hears(s.asks(), "exec_command", comesTo, k.mail)
			if answered {
				second := k.newGate()
				r.calls("exec_command", comesTo(second))
				second.reached()
				k.until("Codex has written down what its model answered", func() bool {
					return bytes.Contains(k.transcript(".codex/sessions", id), []byte("call_2"))
				})
			}
			k.stand("shown")
			s.kill()

			s = k.codex("resume", k.rows(`SELECT session FROM host_sessions`)[0], "Are you there?")
			r = s.asks()
			r.shows(id)
			s.finishes(r, "read")
			if n := strings.Join(k.rows(`SELECT count(*) FROM message_trace WHERE event = 'shown'`), ""); answered &&
				n != "1" {
				t.Errorf("the message was shown %s times", n)
			}
		})
	}
}

// TestCodexTools checks that Codex's model is offered the tools of `mailroom mcp`, and can send a message with them.
func TestCodexTools(t *testing.T) {
	helper.Long(t)
	t.Parallel()
	codexDesk(t).codex("Do it.").hasTools("")
}
