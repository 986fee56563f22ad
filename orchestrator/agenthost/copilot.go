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

// copilotEntry is the name of its server: it reads a project's servers where Claude Code does.
const copilotEntry = "mailroom-copilot"

// copilot is GitHub Copilot CLI. To events by Claude Code's names it gives Claude Code's keys, but it takes text in a form
// of its own. What puts off the end of a turn becomes a prompt that its user sees, as with Gemini CLI.
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
		Prompts: []Prompt{{Begins: "<system_notification>"}}, // what is answered to it the model does not get
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
		// It names none before the end of a turn.
		Path: func(session string) string {
			home, err := os.UserHomeDir()
			if err != nil || session != filepath.Base(session) {
				return ""
			}
			return filepath.Join(copilotHome(&Place{Home: home}), "session-state", session, "events.jsonl")
		},
		// It writes calls of its own in the model's name, without a model.
		Speaks: func(line *Line) bool {
			return line.Type == "assistant.message" && line.Data.Model != "" && line.Subagent == ""
		},
		Said: func(line *Line) bool { return line.Type == "user.message" && line.Subagent == "" },
		// What a hook has answered stands again where the model got it.
		Drops: func(line *Line) bool { return line.Type == "hook.end" },
	},
}

//go:embed copilot.mjs
var copilotExtension string

// copilotHome is the folder of the user's own configuration.
func copilotHome(p *Place) string {
	return cmp.Or(os.Getenv("COPILOT_HOME"), filepath.Join(p.Home, ".copilot"))
}

// copilotFile returns where a file lies, in a project and for all of the user's.
func copilotFile(project, user string) func(p *Place) []string {
	return func(p *Place) []string {
		if p.User {
			return []string{filepath.Join(copilotHome(p), user)}
		}
		return []string{filepath.Join(p.Folder, project)}
	}
}
