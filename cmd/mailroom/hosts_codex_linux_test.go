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

// codexDesk is a desk with Codex.
func codexDesk(t *testing.T) *desk {
	t.Helper()
	return newDesk(t, "codex", "@openai/codex-linux-x64/vendor/x86_64-unknown-linux-musl/bin/codex", openai,
		"SessionStart", "UserPromptSubmit", "PostToolUse", "Stop")
}

// codexModel is what Codex's configuration says of the model that the test plays.
func (k *desk) codexModel() string {
	return fmt.Sprintf(`model = "gpt-5.2-codex"
model_provider = "test"
model_providers.test = { name = "test", base_url = "%s/v1", wire_api = "responses", requires_openai_auth = false }`,
		k.model.server.URL)
}

// codex starts `codex exec` with these arguments. Its tools need no sandbox of its own, which not every machine has.
func (k *desk) codex(args ...string) *session {
	k.t.Helper()
	k.write(".codex/hooks.json", map[string]any{"hooks": k.hookSettings()})
	command, words := k.server()
	list, err := json.Marshal(words) // TOML has lists of strings in the same form
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

// comesTo is the arguments of Codex's shell tool for a command that waits at a gate.
func comesTo(g *gate) map[string]any {
	return map[string]any{"cmd": g.pass(), "yield_time_ms": 30_000}
}

// TestCodexBusy: a message that is sent while the model's tool runs is in the next request to the model, and read at
// the end.
func TestCodexBusy(t *testing.T) {
	t.Parallel()
	k := codexDesk(t)
	k.hooked = k.recording()
	g := k.newGate()
	s := k.codex("Do it.")
	r := s.asks()
	r.shows()
	r.calls("exec_command", comesTo(g))
	g.reached()
	id := k.send("Look at the build.")
	g.open()
	r = s.asks()
	r.shows(id)
	k.stand("shown")
	r.says("Done.")
	s.ends()
	k.stand("read")
	k.checkSamples(".codex/sessions", id)
}

// TestCodexStarts: what is unread when a session starts is in its first request, within its frame.
func TestCodexStarts(t *testing.T) {
	helper.Long(t)
	t.Parallel()
	k := codexDesk(t)
	id := k.send(hostile)
	s := k.codex("Do it.")
	r := s.asks()
	r.shows(id)
	holdsHostile(t, r)
	r.says("Done.")
	s.ends()
	k.stand("read")
}

// TestCodexKilled: a session that is resumed shows what its model had not answered when Codex was killed, once, and
// nothing else.
func TestCodexKilled(t *testing.T) {
	t.Parallel()
	for _, answered := range []bool{false, true} {
		t.Run(fmt.Sprint("answered=", answered), func(t *testing.T) {
			t.Parallel()
			k := codexDesk(t)
			first, second := k.newGate(), k.newGate()
			s := k.codex("Do it.")
			s.asks().calls("exec_command", comesTo(first))
			first.reached()
			id := k.send("Look at the build.")
			first.open()
			r := s.asks()
			r.shows(id)
			if answered {
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
			r.says("Yes.")
			s.ends()
			k.stand("read")
			if n := strings.Join(k.rows(`SELECT count(*) FROM message_trace WHERE event = 'shown'`), ""); answered &&
				n != "1" {
				t.Errorf("the message was shown %s times", n)
			}
		})
	}
}

// TestCodexTools: Codex's model is offered the tools of `mailroom mcp`, and sends a message with them.
func TestCodexTools(t *testing.T) {
	helper.Long(t)
	t.Parallel()
	k := codexDesk(t)
	s := k.codex("Do it.")
	r := s.asks()
	for _, tool := range []string{"get_messages", "get_message", "list_groups"} {
		if !r.offers(tool) {
			t.Errorf("the model is not offered %s, only %q", tool, r.tools(r.body))
		}
	}
	r.calls("send_message", map[string]any{"target": "alice", "message_type": "STATUS", "message": "All is well."})
	r = s.asks()
	r.says("Done.")
	s.ends()
	if got := k.rows(`SELECT sender, recipient FROM agent_message`); len(got) != 1 || got[0] != "bob|alice" {
		t.Errorf("messages: %q; the model is told\n%s", got, r.text())
	}
}
