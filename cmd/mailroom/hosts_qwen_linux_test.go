package main

import (
	"path/filepath"
	"testing"

	"mailroom/orchestrator/agenthost"
	"mailroom/orchestrator/orchestratortest/helper"
)

// qwenDesk returns a desk with Qwen Code, connected by mailroom connect.
func qwenDesk(t *testing.T) *desk {
	t.Helper()
	return bareQwenDesk(t).connects("--as", "bob")
}

// bareQwenDesk returns a desk with Qwen Code that is not connected to Mailroom. Its project is below its home,
// because Qwen Code reads no project configuration in the home itself.
func bareQwenDesk(t *testing.T) *desk {
	t.Helper()
	k := newDesk(t, "qwen", "@qwen-code/qwen-code/cli.js", completions,
		eventsOf("qwen")...)
	k.runsInNode()
	k.project = filepath.Dir(k.write("shop/README.md", "Shop"))
	k.readiesQwen()
	return k
}

// readiesQwen writes the files that Qwen Code requires of its user.
func (k *desk) readiesQwen() {
	k.t.Helper()
	k.write(".qwen/settings.json", map[string]any{
		"security": map[string]any{"auth": map[string]any{"selectedType": "openai"}, "folderTrust": map[string]any{"enabled": false}},
		"model":    map[string]any{"name": "mock"},
		"general":  map[string]any{"enableAutoUpdate": false, "disableAutoUpdate": true},
		"privacy":  map[string]any{"usageStatisticsEnabled": false},
		// Otherwise Qwen Code would ask the model about the conversation at its end.
		"ui":        map[string]any{"enableFollowupSuggestions": false},
		"memory":    map[string]any{"enableManagedAutoMemory": false, "enableManagedAutoDream": false, "enableAutoSkill": false},
		"telemetry": map[string]any{"enabled": false}, "ide": map[string]any{"hasSeenNudge": true},
	})
}

// configuresQwen writes the same files as connect, with k.hooked around the hooks and the vocabularies of k.speaks.
func (k *desk) configuresQwen() {
	k.t.Helper()
	command, args := k.server()
	visible := []string{"mcp__mailroom__coral_wait_for_mentions"}
	for _, word := range agenthost.Find("qwen").Files[0].Words {
		visible = append(visible, word.Text)
	}
	k.write("shop/.qwen/settings.json", map[string]any{
		"mcpServers": map[string]any{"mailroom": map[string]any{"command": command, "args": args, "trust": true, "timeout": 120_000}},
		"tools":      map[string]any{"visible": visible},
		"hooks":      k.hookSettings(),
	})
}

// qwen starts Qwen Code for one prompt, in one process.
func (k *desk) qwen(prompt string, args ...string) *session {
	k.t.Helper()
	s := k.start(k.qwenEnv(), append([]string{"-p", prompt, "--yolo"}, args...)...)
	s.in.Close()
	return s
}

// qwenEnv makes Qwen Code use the test's model, and contact no other server.
func (k *desk) qwenEnv() []string {
	return []string{"QWEN_CODE_NO_RELAUNCH=true", "OPENAI_API_KEY=none", "OPENAI_MODEL=mock",
		"OPENAI_BASE_URL=" + k.model.server.URL + "/v1", "NO_PROXY=127.0.0.1"}
}

// TestQwenBusy checks that a message sent while a tool runs is in the next request to the model, that one that
// arrives while the model answers delays the end of the turn, and that both are read at the end. The model has the
// tools without a search.
func TestQwenBusy(t *testing.T) {
	helper.Long(t) // beside other tests it takes minutes
	t.Parallel()
	s := qwenDesk(t).qwen("Do it.")
	s.isBusy("mcp__mailroom__", "run_shell_command", map[string]any{"description": "Wait", "is_background": false})
}
