package main

import (
	"path/filepath"
	"testing"
)

// copilotDesk returns a desk with Copilot CLI, connected by mailroom connect.
func copilotDesk(t *testing.T) *desk {
	t.Helper()
	return bareCopilotDesk(t).connects("--as", "bob")
}

// bareCopilotDesk returns a desk with Copilot CLI that is not connected to Mailroom.
func bareCopilotDesk(t *testing.T) *desk {
	t.Helper()
	k := newDesk(t, "copilot", "@github/copilot-linux-x64/copilot", completions,
		eventsOf("copilot")...)
	k.project = filepath.Dir(k.write("shop/README.md", "Shop"))
	k.readiesCopilot()
	return k
}

// readiesCopilot writes the files that Copilot CLI requires of its user.
func (k *desk) readiesCopilot() {
	k.t.Helper()
	k.write(".copilot/config.json", map[string]any{"trustedFolders": []string{k.project}})
}

// configuresCopilot writes the same files as connect, with k.hooked around the hooks and the vocabularies of
// k.speaks.
func (k *desk) configuresCopilot() {
	k.t.Helper()
	command, args := k.server()
	k.write("shop/.mcp.json", map[string]any{"mcpServers": map[string]any{"mailroom-copilot": map[string]any{
		"type": "local", "command": command, "args": args, "tools": []string{"*"}, "timeout": 120_000}}})
	k.write("shop/.github/hooks/mailroom.json", map[string]any{"hooks": k.hookSettings()})
}

// copilot starts Copilot CLI for one prompt. Each instance unpacks itself into the cache, which all share.
func (k *desk) copilot(prompt string, args ...string) *session {
	k.t.Helper()
	s := k.start(k.copilotEnv(), append([]string{"-p", prompt, "--allow-all"}, args...)...)
	s.in.Close()
	return s
}

// copilotEnv makes Copilot CLI use the test's model, and contact no other server.
func (k *desk) copilotEnv() []string {
	return []string{"COPILOT_PROVIDER_BASE_URL=" + k.model.server.URL + "/v1", "COPILOT_MODEL=mock", "COPILOT_OFFLINE=true",
		"COPILOT_AUTO_UPDATE=false", "XDG_CACHE_HOME=" + ownFolder, "NO_PROXY=127.0.0.1"}
}

// TestCopilotBusy checks that a message sent while a tool runs is in the next request to the model, that one that
// arrives while the model answers delays the end of the turn, and that both are read at the end.
func TestCopilotBusy(t *testing.T) {
	t.Parallel()
	s := copilotDesk(t).copilot("Do it.")
	s.isBusy("mailroom-copilot-", "bash", map[string]any{"description": "Wait"})
}
