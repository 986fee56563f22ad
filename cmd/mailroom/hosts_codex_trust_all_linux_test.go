//go:build hosts

package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"mailroom/orchestrator/orchestratortest/want"
)

// TestCodexTrust checks that doctor determines from Codex's own configuration whether Codex trusts the current hooks,
// with the same result as Codex itself.
func TestCodexTrust(t *testing.T) {
	t.Parallel()
	k := codexDesk(t).connects("--as", "bob")
	// The user's choices are stored separately from the project's configuration.
	own := filepath.Join(k.folder, "codex")
	k.env = append(k.env, "CODEX_HOME="+own)
	project := fmt.Sprintf("[projects.%q]\ntrust_level = \"trusted\"\n", k.folder)
	k.write("codex/config.toml", project)
	says := func(status string) (trust string) {
		t.Helper()
		for _, h := range k.codexHooks(own) {
			if h.Status != status {
				t.Errorf("Codex says that %s is %s; want %s", h.Key, h.Status, status)
			}
			trust += fmt.Sprintf("[hooks.state.%q]\ntrusted_hash = %q\n", h.Key, h.Hash)
		}
		_, answer := k.answerOf("doctor")
		doctor := fmt.Sprint(answer["findings"])
		if distrusted := strings.Contains(doctor,
			"Codex does not run the hooks SessionStart, UserPromptSubmit, PostToolUse, Stop"); distrusted != (status != "trusted") {
			t.Errorf("Codex says that the hooks are %s, and doctor\n%s", status, doctor)
		}
		return trust
	}
	trust := says("untrusted")
	k.write("codex/config.toml", project+trust)
	says("trusted")
	k.write("codex/config.toml", project+strings.ReplaceAll(trust, "sha256:", "sha256:0"))
	says("modified")
}

// codexHook is Codex's information about a hook.
type codexHook struct {
	Key    string `json:"key"`
	Hash   string `json:"currentHash"`
	Status string `json:"trustStatus"`
}

// codexHooks returns the hooks that Codex finds in the desk's folder. own is the folder of Codex's own configuration.
func (k *desk) codexHooks(own string) (list []codexHook) {
	k.t.Helper()
	s := k.start([]string{"CODEX_HOME=" + own}, "app-server")
	defer s.kill()
	for _, ask := range []map[string]any{
		{"id": 1, "method": "initialize",
			"params": map[string]any{"clientInfo": map[string]any{"name": "test", "version": "1"}}},
		{"method": "initialized"},
		{"id": 2, "method": "hooks/list", "params": map[string]any{"cwds": []string{k.folder}}},
	} {
		line, err := json.Marshal(ask)
		if err == nil {
			_, err = s.in.Write(append(line, '\n'))
		}
		if err != nil {
			k.t.Fatal(err)
		}
	}
	s.writes("it lists its hooks", func(text string) bool {
		for line := range strings.Lines(text) {
			var answer struct {
				ID     int
				Result struct {
					Data []struct{ Hooks []codexHook }
				}
			}
			if json.Unmarshal([]byte(line), &answer) == nil && answer.ID == 2 && len(answer.Result.Data) == 1 {
				list = answer.Result.Data[0].Hooks
			}
		}
		return len(list) > 0
	})
	want.Equal(k.t, "hooks", len(list), 4)
	return list
}
