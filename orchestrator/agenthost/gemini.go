package agenthost

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"time"

	"mailroom/orchestrator/hosts"
	"mailroom/orchestrator/pattern"
)

// gemini is Gemini CLI. What its model is to be shown at the end of a turn it shows to the user as a warning, and then
// gives it to the model as if the user had said it. So there it is told only how many messages there are, and they come
// with the BeforeAgent that follows.
var gemini = Host{
	Name:     "gemini",
	programs: []string{"gemini", "gemini.js"},
	packages: []string{"@google/gemini-cli"},
	clients:  []string{"gemini-cli-mcp-client"},

	Connection: Connection{
		Asks: "Gemini CLI asks whether to trust the folder, and warns once about new hooks. It does not use tools or hooks in a folder that you do not trust. Since June 2026, Gemini CLI works only with an API key or a company license.",
		Files: []File{{
			Paths: func(p *Place) []string { return []string{geminiSettings(p)} }, Format: CommentedJSON, NoMark: true,
			Servers: "mcpServers", Server: geminiServer, Optional: []string{"trust"},
			Hooks: []Entry{
				{Event: "SessionStart", Kind: hosts.Started, Timeout: 10_000}, {Event: "BeforeAgent", Kind: hosts.Prompted, Timeout: 10_000},
				{Event: "AfterTool", Kind: hosts.Worked, Timeout: 10_000}, {Event: "AfterAgent", Kind: hosts.Stopped, Timeout: 10_000},
				{Event: "SessionEnd", Kind: hosts.Ended, Timeout: 10_000},
			},
		}},
		Off: []Setting{
			{Paths: func(p *Place) []string {
				return []string{filepath.Join(geminiHome(p), ".gemini", "trustedFolders.json")}
			},
				Names: inProject(nil, nil), Is: "DO_NOT_TRUST", Says: "the folder is not trusted"},
			{Paths: func(p *Place) []string {
				return []string{geminiSettings(&Place{Home: p.Home, User: true}), geminiSettings(p)}
			}, Names: func(*Place) []string { return []string{"hooksConfig", "enabled"} }, Is: false, Says: "hooks are disabled"},
		},
		Replaces: pattern.New(`\$(\w|\{[^}])`),
		// It waits for ten minutes unless the configuration has less, and that which connect makes for an extension has two.
		Calls: CallTime{Key: "timeout", Unit: time.Millisecond, Unsaid: 2 * time.Minute},
	},
	Hooks: Hooks{
		Nothing: "{}\n",
		OwnKind: hosts.Nudged,
		Prompts: []Prompt{{"User steering update", hosts.Woken}},
		Shows:   true,
		Forgets: true,
		Form:    blocksAt("AfterAgent"),
	},
	Transcript: Transcript{
		Late:   true,
		Speaks: func(line *Line) bool { return line.Type == "gemini" },
		Drops:  geminiDrops,
		Parts:  geminiParts,
	},
}

// geminiServer is the form of a server in Gemini CLI, and in Qwen Code, which has come from it.
func geminiServer(s *Server) any {
	return struct {
		Command string   `json:"command"`
		Args    []string `json:"args"`
		Timeout int      `json:"timeout"`
		Trust   bool     `json:"trust,omitempty"`
	}{s.Program, s.Args, 120_000, !s.Ask}
}

// geminiHome is where the folder of the user's own configuration lies.
func geminiHome(p *Place) string { return cmp.Or(os.Getenv("GEMINI_CLI_HOME"), p.Home) }

func geminiSettings(p *Place) string {
	folder := p.Folder
	if p.User {
		folder = geminiHome(p)
	}
	return filepath.Join(folder, ".gemini", "settings.json")
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
func geminiDrops(line *Line) bool {
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
