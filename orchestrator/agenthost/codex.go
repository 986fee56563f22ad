package agenthost

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mailroom/orchestrator/hosts"
)

// codex describes Codex.
var codex = Host{
	Name:     "codex",
	programs: []string{"codex"},
	packages: []string{"@openai/codex"},
	clients:  []string{"codex-mcp-client"},

	Connection: Connection{
		Asks: "Trust the folder. When Codex asks you to review the hooks, trust them: Codex does not run hooks that you have not trusted. The hooks start with your first prompt.",
		Files: []File{
			{Paths: codexFile("config.toml"), Format: TOML, Servers: "mcp_servers", Optional: []string{"default_tools_approval_mode"},
				Server: func(s *Server) any {
					mode := "approve"
					if s.Ask {
						mode = ""
					}
					return struct {
						Command string   `json:"command"`
						Args    []string `json:"args"`
						Timeout int      `json:"tool_timeout_sec"`
						Mode    string   `json:"default_tools_approval_mode,omitempty"`
					}{s.Program, s.Args, 120, mode}
				}},
			// Codex asks again about every hook whose command line changes. UserPromptSubmit also starts the
			// process that wakes the session.
			{Paths: codexFile("hooks.json"), Hooks: []Entry{
				{Event: "SessionStart", Kind: hosts.Started, Timeout: 10}, {Event: "UserPromptSubmit", Kind: hosts.Prompted, Timeout: 10, Names: true},
				{Event: "PostToolUse", Kind: hosts.Worked, Timeout: 10}, {Event: "Stop", Kind: hosts.Stopped, Timeout: 10},
			}},
		},
		Off: []Setting{
			{Paths: codexOwn, Names: func(*Place) []string { return []string{"features", "hooks"} }, Is: false,
				Says: "hooks are disabled"},
			{Paths: codexOwn, Names: inProject([]string{"projects"}, []string{"trust_level"}), Is: "untrusted", Says: "the folder is not trusted"},
		},
		Digests: true,
		Calls:   CallTime{Key: "tool_timeout_sec", Unit: time.Second, Unsaid: time.Minute},
	},
	Sessions: Sessions{
		Unproved:     true, // its daemon runs the sessions of closed terminals
		EndsByItself: func(words []string) bool { return slices.Contains(words, "exec") || slices.Contains(words, "e") },
		// A running session polls its queue, at least every ten seconds.
		GivePrompt: func(session, prompt string) []string {
			return []string{"queue", "--thread=" + session, "--message=" + prompt}
		},
	},
	Hooks: Hooks{
		OwnKind: hosts.Rested,
		Bytes:   true,
		Form:    blocksAt("Stop"),
		Dismiss: map[string]string{"decision": "block", "reason": "mailroom: the messages have been read in the meantime."},
	},
	Transcript: Transcript{
		Speaks: func(line *Line) bool {
			p := line.Payload
			return line.Type == "response_item" &&
				(p.Type == "message" && p.Role == "assistant" || strings.HasSuffix(p.Type, "_call"))
		},
		Said: func(line *Line) bool { return line.Type == "response_item" && line.Payload.Role == "user" },
	},
}

// codexHome returns the folder of the user's configuration.
func codexHome(p *Place) string {
	return cmp.Or(os.Getenv("CODEX_HOME"), filepath.Join(p.Home, ".codex"))
}

// codexOwn returns the user's configuration file, which also lists trusted folders.
func codexOwn(p *Place) []string { return []string{filepath.Join(codexHome(p), "config.toml")} }

// codexFile returns the path of a file with this name.
func codexFile(name string) func(p *Place) []string {
	return func(p *Place) []string {
		if p.User {
			return []string{filepath.Join(codexHome(p), name)}
		}
		return []string{filepath.Join(p.Folder, ".codex", name)}
	}
}
