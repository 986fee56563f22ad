//go:build hosts

package main

import (
	"testing"
)

// TestClaudeAuto checks that with --as auto, each process of Claude Code is a separate agent, for its tools and its
// hooks. A message to one agent is shown only to that agent. After its end, the name is kept for a resumed session,
// and no other session gets it.
func TestClaudeAuto(t *testing.T) {
	t.Parallel()
	k := claudeDesk(t).connects("--as", "auto")
	run := func(name string, args ...string) (*session, *request) {
		s := k.start(k.claudeEnv(), append([]string{
			"-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose", "--allowed-tools",
			"Bash",
		}, args...)...)
		s.prompts("Do it.")
		r := s.asks()
		r.isAgent(name)
		return s, r
	}
	first, r := run("claude")
	r.shows()
	atFirst, atSecond := k.newGate(), k.newGate()
	r.calls("Bash", waitsAt(atFirst))
	atFirst.reached()
	second, r := run("claude-2")
	r.calls("Bash", waitsAt(atSecond))
	atSecond.reached()

	atFirst.open()
	first.asks().writesTo("mcp__mailroom__", "claude-2")
	r = first.asks()
	r.shows()
	ids := k.rows(`SELECT message_id FROM agent_message WHERE sender = 'claude' AND recipient = 'claude-2'`)
	if len(ids) != 1 {
		t.Fatalf("claude has sent %q; the model is told\n%s", ids, r.text())
	}
	r.says("Done.")
	atSecond.open()
	r = second.asks()
	r.shows(ids...)
	r.says("Done.")
	k.await(`SELECT count(*) FROM host_sessions WHERE state = 'idle'`, "2")

	resumed := k.rows(`SELECT session FROM host_sessions WHERE agent = 'claude'`)[0]
	first.kill()
	id := k.sendTo("claude", "Look at the build.")
	_, r = run("claude-3")
	r.shows()
	r.says("Done.")
	k.await(`SELECT count(*) FROM host_sessions WHERE state = 'idle' AND agent = 'claude-3'`, "1")
	_, r = run("claude", "--resume", resumed)
	r.shows(id)
	r.says("Done.")
}

// TestGeminiAuto checks that with --as auto, each process of Gemini CLI is a separate agent.
func TestGeminiAuto(t *testing.T) {
	t.Parallel()
	k := geminiDesk(t)
	k.geminiSettings(map[string]any{})
	k.connects("--as", "auto")
	first := k.startGemini("Do it.")
	r := first.asks()
	r.isAgent("gemini")
	g := k.newGate()
	r.calls("run_shell_command", described(g))
	g.reached()
	second := k.startGemini("Do it.")
	r = second.asks()
	r.isAgent("gemini-2")
	r.writesTo("mcp_mailroom_", "gemini")
	r = second.asks()
	r.shows()
	r.says("Done.")
	second.ends()
	ids := k.rows(`SELECT message_id FROM agent_message WHERE sender = 'gemini-2' AND recipient = 'gemini'`)
	g.open()
	r = first.asks()
	r.shows(ids...)
	r.says("Done.")
	first.ends()
	if len(ids) != 1 {
		t.Errorf("gemini-2 has sent %q", ids)
	}
}
