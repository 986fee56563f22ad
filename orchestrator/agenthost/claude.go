package agenthost

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mailroom/orchestrator/hosts"
	"mailroom/orchestrator/pattern"
)

// claude describes Claude Code. Source: hosts.md, "Per host".
var claude = Host{
	Name:     "claude",
	programs: []string{"claude"},
	packages: []string{"@anthropic-ai/claude-code", "@anthropic-ai/claude-agent-sdk"},
	clients:  []string{"claude-code"},

	Connection: Connection{
		Asks: "Claude Code asks once whether to trust the folder and its MCP server.",
		// The tools go into a file that a project may share, the hooks into the user's own file, which Claude Code
		// keeps out of version control.
		Files: []File{
			{Paths: claudeTools, Servers: "mcpServers", Server: func(s *Server) any {
				return struct {
					Command string   `json:"command"`
					Args    []string `json:"args"`
					Always  bool     `json:"alwaysLoad"` // otherwise the model sees only the names of the tools
				}{s.Program, s.Args, true}
			}},
			{Paths: func(p *Place) []string { return claudeSettings(p)[:1] },
				Words: []Word{
					{Text: "mailroom", Path: []string{"enabledMcpjsonServers"}, Project: true},
					// Claude Code would ask about it.
					{Text: copilotEntry, Path: []string{"disabledMcpjsonServers"}, Project: true, Spare: true},
					{Text: "mcp__mailroom", Path: []string{"permissions", "allow"}, Unasked: true},
				},
				Hooks: []Entry{
					{Event: "SessionStart", Kind: hosts.Started, Timeout: 10}, {Event: "SessionStart", Runs: "wake", Async: true, Timeout: 86400},
					{Event: "UserPromptSubmit", Kind: hosts.Prompted, Timeout: 10},
					{Event: "PostToolUse", Kind: hosts.Worked, Timeout: 10}, {Event: "PostToolUseFailure", Kind: hosts.Worked, Timeout: 10},
					{Event: "Stop", Kind: hosts.Stopped, Timeout: 10}, {Event: "Stop", Runs: "wake", Async: true, Timeout: 86400},
					{Event: "SessionEnd", Kind: hosts.Ended, Timeout: 10},
				}},
		},
		Off: []Setting{{
			Paths: func(p *Place) []string {
				return append(claudeSettings(&Place{Home: p.Home, User: true}), claudeSettings(p)...)
			},
			Names: func(*Place) []string { return []string{"disableAllHooks"} }, Is: true, Says: "hooks are disabled",
		}},
		Replaces: pattern.New(`\$\{`),
		// After two minutes the model continues without the answer, whatever the configuration sets.
		Calls: CallTime{Key: "timeout", Unit: time.Millisecond, Unsaid: 2 * time.Minute, Most: true,
			Variable: "MCP_TOOL_TIMEOUT"},
	},
	Sessions: Sessions{EndsByItself: claudePrints},
	Hooks: Hooks{
		Prompts: []Prompt{{"<task-notification>", hosts.Woken}},
		Form: func(event, text string) any {
			return map[string]any{"hookSpecificOutput": context(event, text), "suppressOutput": true}
		},
	},
	Transcript: Transcript{
		// Claude Code writes entries in the model's name when the model has failed or a session is resumed.
		Speaks: func(line *Line) bool { return line.Type == "assistant" && line.Message.Model != "<synthetic>" },
		Said: func(line *Line) bool {
			return line.Type == "user" && !bytes.Contains(line.Message.Content, []byte(`"type":"tool_result"`))
		},
	},
}

// claudeTools returns the files that can contain the tools.
func claudeTools(p *Place) []string {
	own := os.Getenv("CLAUDE_CONFIG_DIR")
	switch {
	case !p.User:
		return []string{filepath.Join(p.Folder, ".mcp.json")}
	case own != "":
		return []string{filepath.Join(own, ".claude.json")}
	}
	return []string{filepath.Join(p.Home, ".claude.json")}
}

// claudeSettings returns the settings files: the user's, or in a project the user's own followed by the shared one.
func claudeSettings(p *Place) []string {
	own := os.Getenv("CLAUDE_CONFIG_DIR")
	switch {
	case !p.User:
		folder := filepath.Join(p.Folder, ".claude")
		return []string{filepath.Join(folder, "settings.local.json"), filepath.Join(folder, "settings.json")}
	case own != "":
		return []string{filepath.Join(own, "settings.json")}
	}
	return []string{filepath.Join(p.Home, ".claude", "settings.json")}
}

// claudePrints reports whether Claude Code with this command line answers once and then exits. It would not exit
// while a process waits in the background.
func claudePrints(words []string) bool {
	stream := false
	for i, word := range words {
		stream = stream || word == "--input-format=stream-json" || word == "stream-json" &&
			words[max(0, i-1)] == "--input-format"
	}
	return !stream && slices.ContainsFunc(words, func(word string) bool {
		short := strings.HasPrefix(word, "-") && !strings.HasPrefix(word, "--") && strings.Trim(word, "-cdp") == ""
		return word == "--print" || short && strings.Contains(word, "p")
	})
}
