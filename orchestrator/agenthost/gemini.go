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

// gemini describes Gemini CLI. At the end of a turn it shows a hook's text to the user as a warning, and then
// passes the text to the model as if the user had written it. Therefore the hook there returns only the number of
// messages, and the messages follow with the next BeforeAgent.
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
		// Gemini CLI waits for ten minutes unless the configuration sets less. The entry that connect writes for an
		// extension sets two minutes.
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

// geminiServer is the form of a server in Gemini CLI and in Qwen Code, which is derived from it.
func geminiServer(s *Server) any {
	return struct {
		Command string   `json:"command"`
		Args    []string `json:"args"`
		Timeout int      `json:"timeout"`
		Trust   bool     `json:"trust,omitempty"`
	}{s.Program, s.Args, 120_000, !s.Ask}
}

// geminiHome returns the parent of the user's configuration folder.
func geminiHome(p *Place) string { return cmp.Or(os.Getenv("GEMINI_CLI_HOME"), p.Home) }

func geminiSettings(p *Place) string {
	folder := p.Folder
	if p.User {
		folder = geminiHome(p)
	}
	return filepath.Join(folder, ".gemini", "settings.json")
}

// geminiParts returns the transcripts of one session. Their names end in the same part of the session's ID. When
// Gemini CLI resumes a session, it first names a new transcript and then continues an existing one.
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
	for _, file := range all { // sorted by name, which begins with the time
		if name := file.Name(); strings.HasPrefix(name, "session-") && strings.HasSuffix(name, end) {
			parts = append(parts, filepath.Join(folder, name))
		}
	}
	return parts
}

// geminiDrops reports whether Gemini CLI omits an entry when it resumes a session. It does not take a user entry
// with one of these beginnings for a prompt. A hook's text at the start of a session is therefore lost, together
// with the prompt, because Gemini CLI puts the text before the prompt.
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
