package main

import (
	"path/filepath"
	"strings"
	"testing"

	"mailroom/commands/connect"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/helper"
)

// pack writes the packages for hosts into the desk's folder, and returns where that of this host is. From then on the
// database is that of a project in this folder, which a package must find by itself.
func (k *desk) pack() string {
	k.t.Helper()
	enginetest.OfAFile(k.t, "a package finds the file of its project")
	for name, text := range connect.Packages("v1.2.3") {
		k.write(filepath.Join("dist", filepath.FromSlash(name)), string(text))
	}
	k.db = filepath.Join(k.folder, ".mailroom", "mailroom.db")
	k.run("--db", k.db, "init")
	k.run("agent", "add", "alice")
	return filepath.Join(k.folder, "dist", k.host)
}

// isPacked checks a session of a host that has only its package. The agent has the host's name. The model is told its
// agent, is shown a message that arrives while its tool runs, and writes to alice. isPacked returns the ID of the
// message, and the request after that.
func (s *session) isPacked(shell string, at func(*gate) map[string]any, tools string) (busy string, r *request) {
	s.t.Helper()
	r = s.asks()
	r.isAgent(s.host)
	busy, r = s.hears(r, shell, at, func() string { return s.sendTo(s.host, "Look at the build.") })
	r.writesTo(tools, "alice")
	r = s.asks()
	if sent := s.rows(`SELECT 1 FROM agent_message WHERE sender = '` + s.host + `' AND recipient = 'alice'`); len(sent) != 1 {
		s.t.Errorf("%s has sent %d messages; its model is told\n%s", s.host, len(sent), r.text())
	}
	return busy, r
}

// TestClaudePlugin checks that if only the plugin is installed, by Claude Code's own commands, the model has the
// tools, is shown messages sent while its tool runs, and is woken when it is idle.
func TestClaudePlugin(t *testing.T) {
	helper.Long(t)
	t.Parallel()
	k := claudeDesk(t)
	from := k.pack()
	k.start(k.claudeEnv(), "plugin", "marketplace", "add", from).ends()
	k.start(k.claudeEnv(), "plugin", "install", "mailroom@mailroom-local", "--scope", "project").ends()
	s := k.start(k.claudeEnv(), "-p", "--input-format", "stream-json", "--output-format", "stream-json", "--verbose",
		"--allowed-tools", "Bash,mcp__plugin_mailroom_mailroom")
	s.prompts("Do it.")
	busy, r := s.isPacked("Bash", waitsAt, "mcp__plugin_mailroom_mailroom__")
	r.says("Done.")
	k.await(`SELECT count(*) FROM host_sessions WHERE state = 'idle' AND waiter_pid > 0`, "1")
	idle := k.sendTo("claude", "Look at the build.")
	r = s.asks()
	r.shows(busy, idle)
	r.says("Done.")
}

// TestGeminiExtension checks that if only the extension is installed, by Gemini's own command, which asks on the
// terminal, the model has the tools, and is shown messages sent while its tool runs.
func TestGeminiExtension(t *testing.T) {
	helper.Long(t)
	t.Parallel()
	k := geminiDesk(t)
	from := k.pack()
	k.geminiSettings(map[string]any{})
	install := k.runGemini(nil, "extensions", "install", from)
	install.answers("Do you want to continue? [Y/n]: ", "y")
	install.ends()
	s := k.startGemini("Do it.")
	_, r := s.isPacked("run_shell_command", described, "mcp_mailroom_")
	r.says("Done.")
	s.ends()
}

// isAgent checks which agent the model is told that it is.
func (r *request) isAgent(name string) {
	r.t.Helper()
	if !strings.Contains(r.text(), "mailroom: you are the agent "+name+".") {
		r.t.Errorf("the model is not told that it is %s:\n%s", name, r.text())
	}
}
