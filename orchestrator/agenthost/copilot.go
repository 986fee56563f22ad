package agenthost

import (
	"cmp"
	_ "embed" // for the extension
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"mailroom/orchestrator/hosts"
)

// copilotEntry is the name of Copilot's server, because Copilot reads a project's servers from the same file as
// Claude Code.
const copilotEntry = "mailroom-copilot"

// copilot describes GitHub Copilot CLI. For events with Claude Code's names it uses Claude Code's keys, but it
// accepts text in its own form. A text that puts off the end of a turn becomes a prompt that its user sees, as in
// Gemini CLI.
var copilot = Host{
	Name:     "copilot",
	programs: []string{"copilot"},
	packages: []string{"@github/copilot"},
	parts:    []string{"extension_bootstrap.mjs"},
	variable: "COPILOT_CLI",
	clients:  []string{"copilot-cli", "github-copilot"},

	Connection: Connection{
		Asks: "When Copilot asks, confirm that you trust the folder. Until then it does not use hooks or tools.",
		Files: []File{
			{Paths: copilotFile(".mcp.json", "mcp-config.json"), Servers: "mcpServers", Entry: copilotEntry,
				Server: func(s *Server) any {
					return struct {
						Type    string   `json:"type"`
						Command string   `json:"command"`
						Args    []string `json:"args"`
						Tools   []string `json:"tools"`
						Timeout int      `json:"timeout"`
					}{"local", s.Program, s.Args, []string{"*"}, 120_000}
				}},
			{Paths: copilotFile(".github/hooks/mailroom.json", "hooks/mailroom.json"), Hooks: claudesHooks},
			{Paths: copilotFile(".github/extensions/mailroom/extension.mjs", "extensions/mailroom/extension.mjs"),
				Script: copilotExtension, Idle: true},
		},
		Off: []Setting{{
			Paths: func(p *Place) []string { return []string{filepath.Join(copilotHome(p), "settings.json")} },
			Names: func(*Place) []string { return []string{"disableAllHooks"} }, Is: true, Says: "hooks are disabled",
		}},
		Calls:      CallTime{Key: "timeout", Unit: time.Millisecond, Unsaid: time.Minute},
		Allows:     []string{"--allow-tool=" + copilotEntry},
		Wakes:      []string{"--experimental"},
		OnlyInside: true,
		OnlyAtTop:  true,
	},
	Sessions: Sessions{EndsByItself: func(words []string) bool {
		return slices.ContainsFunc(words, func(word string) bool {
			return word == "-p" || word == "--prompt" || strings.HasPrefix(word, "--prompt=")
		})
	}},
	Hooks: Hooks{
		Prompts: []Prompt{{Begins: "<system_notification>"}}, // the model does not get the answer to it
		OwnKind: hosts.Nudged,
		Shows:   true,
		Forgets: true,
		Form: func(event, text string) any {
			if event == "Stop" {
				return map[string]string{"decision": "block", "reason": text}
			}
			return map[string]string{"additionalContext": text}
		},
	},
	Transcript: Transcript{
		// Copilot names no transcript before the end of a turn.
		Path: func(session string) string {
			home, err := os.UserHomeDir()
			if err != nil || session != filepath.Base(session) {
				return ""
			}
			return filepath.Join(copilotHome(&Place{Home: home}), "session-state", session, "events.jsonl")
		},
		// Copilot writes calls of its own in the model's name, without a model.
		Speaks: func(line *Line) bool {
			return line.Type == "assistant.message" && line.Data.Model != "" && line.Subagent == ""
		},
		Said: func(line *Line) bool { return line.Type == "user.message" && line.Subagent == "" },
		// A hook's answer appears again at the point where the model got it.
		Drops: func(line *Line) bool { return line.Type == "hook.end" },
	},
}

//go:embed copilot.mjs
var copilotExtension string

// copilotHome returns the folder of the user's configuration.
func copilotHome(p *Place) string {
	return cmp.Or(os.Getenv("COPILOT_HOME"), filepath.Join(p.Home, ".copilot"))
}

// copilotFile returns the path of a file, in a project or in the user's configuration.
func copilotFile(project, user string) func(p *Place) []string {
	return func(p *Place) []string {
		if p.User {
			return []string{filepath.Join(copilotHome(p), user)}
		}
		return []string{filepath.Join(p.Folder, project)}
	}
}
