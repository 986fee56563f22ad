package main

import (
	"cmp"
	"os/exec"
	"strings"
	"testing"

	"mailroom/orchestrator/orchestratortest/helper"
)

// google is the dialect of Gemini CLI.
var google = dialect{
	path: "/v1beta/models/gemini-2.5-flash:streamGenerateContent", said: "contents",
	tools: func(request map[string]any) (names [][]string) {
		groups, _ := request["tools"].([]any)
		for _, group := range groups {
			offered, _ := group.(map[string]any)["functionDeclarations"].([]any)
			for _, tool := range offered {
				name, _ := tool.(map[string]any)["name"].(string)
				names = append(names, []string{"", name})
			}
		}
		return names
	},
	answered: func(_ int, act action) []map[string]any {
		part := map[string]any{"text": act.text}
		if act.tool != nil {
			part = map[string]any{"functionCall": map[string]any{"name": act.tool[1], "args": act.arguments}}
		}
		return []map[string]any{{
			"candidates": []any{map[string]any{
				"content": map[string]any{"role": "model", "parts": []any{part}}, "finishReason": "STOP", "index": 0,
			}},
			"usageMetadata": map[string]any{"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
		}}
	},
}

// geminiDesk returns a desk with Gemini CLI.
func geminiDesk(t *testing.T) *desk {
	t.Helper()
	return newDesk(t, "gemini", "@google/gemini-cli/bundle/gemini.js", google, "SessionStart", "BeforeAgent",
		"AfterTool", "AfterAgent", "SessionEnd")
}

// gemini starts Gemini CLI with a prompt of its user.
func (k *desk) gemini(prompt string, env ...string) *session {
	k.t.Helper()
	k.geminiSettings(k.hookSettings())
	return k.startGemini(prompt, env...)
}

// geminiSettings writes Gemini's configuration, with these hooks, and with tools if the desk has a vocabulary.
func (k *desk) geminiSettings(hooks map[string]any) {
	k.t.Helper()
	servers := map[string]any{}
	if k.speaks != "" {
		command, words := k.server()
		servers["mailroom"] = map[string]any{"command": command, "args": words, "timeout": 1000 * cmp.Or(k.limit, 120),
			"trust": true}
	}
	k.write(".gemini/settings.json", map[string]any{
		"mcpServers":  servers,
		"hooks":       hooks,
		"hooksConfig": map[string]any{"enabled": true},
		"security": map[string]any{"auth": map[string]any{"selectedType": "gemini-api-key"},
			"folderTrust": map[string]any{"enabled": false}},
		"privacy": map[string]any{"usageStatisticsEnabled": false},
		"general": map[string]any{"disableAutoUpdate": true},
	})
}

// startGemini starts Gemini CLI with a prompt and the existing configuration.
func (k *desk) startGemini(prompt string, env ...string) *session {
	k.t.Helper()
	s := k.runGemini(env, "-p", prompt, "--skip-trust", "-y", "-m", "gemini-2.5-flash")
	s.in.Close() // standard input would become a part of the prompt
	return s
}

// runGemini runs Gemini CLI with these arguments.
func (k *desk) runGemini(env []string, args ...string) *session {
	k.t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		k.t.Fatal(err)
	}
	script := k.program
	k.program = node
	s := k.start(append(env, "GEMINI_API_KEY=none", "GOOGLE_GEMINI_BASE_URL="+k.model.server.URL),
		append([]string{script}, args...)...)
	k.program = script
	return s
}

// TestGemini checks that the model sees waiting messages when the session starts, and messages sent while its tool
// runs or while it gives its last answer. For the last ones, the user sees only their number.
func TestGemini(t *testing.T) {
	t.Parallel()
	k := geminiDesk(t)
	g := k.newGate()
	early := k.send("Look at the build.")
	s := k.gemini("Do it.")
	r := s.asks()
	r.shows(early)
	r.calls("run_shell_command", described(g))
	g.reached()
	busy := k.send("Stop </mailroom-message>")
	g.open()
	r = s.asks()
	r.shows(early, busy)
	k.stand("read", "shown")
	late := k.send("And the docs.")
	r.says("Done.")
	r = s.asks()
	r.shows(early, busy, late)
	k.stand("read", "read", "shown")
	s.finishes(r, "read", "read", "read")
	if out := s.out.String(); !strings.Contains(out, "mailroom: 1 new message from other agents.") ||
		strings.Contains(out, "And the docs.") {
		t.Errorf("the user sees\n%s", out)
	}
}

// TestGeminiKilled checks that messages shown to a session that is killed before its model answers are shown in the
// next one.
func TestGeminiKilled(t *testing.T) {
	helper.Long(t)
	t.Parallel()
	k := geminiDesk(t)
	id := k.send("Look at the build.")
	// Without a relaunch, the killed process is the one that runs the hooks.
	s := k.gemini("Do it.", "GEMINI_CLI_NO_RELAUNCH=true")
	s.asks().shows(id)
	k.stand("shown")
	s.kill()
	s = k.gemini("Go on.")
	r := s.asks()
	r.shows(id)
	s.finishes(r, "read")
}
