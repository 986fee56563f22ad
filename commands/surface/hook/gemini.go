package hook

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"mailroom/orchestrator/hosts"
	"mailroom/orchestrator/pattern"
)

// gemini is Gemini CLI. What its model is to be shown at the end of a turn it shows to the user as a warning, and then
// gives it to the model as if the user had said it. So there it is told only how many messages there are, and they come
// with the BeforeAgent that follows.
var gemini = Host{
	Name: "gemini",
	Events: map[string]hosts.Kind{
		"SessionStart": hosts.Started, "BeforeAgent": hosts.Prompted, "AfterTool": hosts.Worked,
		"AfterAgent": hosts.Stopped,
		"SessionEnd": hosts.Ended,
	},
	nothing: "{}\n",
	nudges:  []nudge{{ourNudge, hosts.Nudged}, {pattern.New(`^User steering update`), hosts.Woken}},
	shows:   true,
	forgets: true,
	late:    true,
	form:    blocksAt("AfterAgent"),
	speaks:  func(line *entry) bool { return line.Type == "gemini" },
	parts:   geminiParts,
	drops:   geminiDrops,
}

// geminiParts lists the transcripts of one session, which a part of its id ends. When Gemini resumes the session it
// names a new one at first, and then goes on with one that is there.
func geminiParts(path string) []string {
	at := strings.LastIndexByte(path, '-')
	if at < 0 || !strings.HasPrefix(filepath.Base(path), "session-") {
		return nil
	}
	folder, end := filepath.Dir(path), path[at:]
	all, err := os.ReadDir(folder)
	if err != nil {
		return nil
	}
	var parts []string
	for _, file := range all { // by their names, in which the time comes first
		if name := file.Name(); strings.HasPrefix(name, "session-") && strings.HasSuffix(name, end) {
			parts = append(parts, filepath.Join(folder, name))
		}
	}
	return parts
}

// geminiDrops reports whether Gemini leaves an entry out of a session that it resumes: it takes what the user says for
// something else than a prompt by how that begins. So what a hook says when a session starts is lost, and the prompt
// with it, since Gemini puts it before that.
func geminiDrops(line *entry) bool {
	if line.Type != "user" {
		return false
	}
	var parts []struct{ Text string }
	if json.Unmarshal(line.Content, &parts) != nil || len(parts) == 0 {
		return false
	}
	text := strings.TrimSpace(parts[0].Text)
	for _, begin := range []string{"/", "?", "<session_context>", "<hook_context>"} {
		if strings.HasPrefix(text, begin) {
			return true
		}
	}
	return false
}
