package connect

import (
	"os"
	"path/filepath"

	"mailroom/orchestrator/pattern"
)

// claude is Claude Code. Source: hosts.md, "Per host".
var claude = host{
	name: "claude", program: "claude",
	files: claudeFiles, refuses: claudeRefuses, replaces: pattern.New(`\$\{`),
	asks: "It asks once whether to trust the folder and its MCP server.",
}

// claudeEvents are the hooks that Mailroom has in Claude Code, in the order of a session.
var claudeEvents = []string{"SessionStart", "UserPromptSubmit", "PostToolUse", "PostToolUseFailure", "Stop",
	"SessionEnd"}

// claudeFiles: the tools stand in a file that a project may share, the hooks in the user's own, which Claude Code keeps
// out of version control.
func claudeFiles(p *place, c *connection) []file {
	tools, settings := filepath.Join(p.folder, ".mcp.json"), filepath.Join(p.folder, ".claude", "settings.local.json")
	if p.user {
		tools, settings = filepath.Join(p.home, ".claude.json"), filepath.Join(p.home, ".claude", "settings.json")
		if own := os.Getenv("CLAUDE_CONFIG_DIR"); own != "" {
			tools, settings = filepath.Join(own, ".claude.json"), filepath.Join(own, "settings.json")
		}
	}
	return []file{
		{
			path: tools, add: plainJSON(edit(func(d *document) { c.putServer(d, "mcpServers", c.claudeServer()) })),
			remove: undo(func(d *document) { dropServer(d, "mcpServers") }), decode: decodeJSON, server: "mcpServers",
		},
		{path: settings, add: plainJSON(edit(func(d *document) { c.claudeSettings(d, p.user) })),
			remove: undo(dropClaudeSettings), decode: decodeJSON},
	}
}

func (c *connection) claudeServer() any {
	return struct {
		Command string   `json:"command"`
		Args    []string `json:"args"`
		Always  bool     `json:"alwaysLoad"` // otherwise the model sees only the names of the tools
	}{c.program, c.serve("claude"), true}
}

func (c *connection) claudeSettings(d *document, user bool) {
	if !user {
		addWord(d, "mailroom", "enabledMcpjsonServers")
	}
	if c.ask {
		dropWord(d, "mcp__mailroom", "permissions", "allow")
	} else {
		addWord(d, "mcp__mailroom", "permissions", "allow")
	}
	c.claudeHooks(d)
}

func (c *connection) claudeHooks(d *document) {
	for _, event := range claudeEvents {
		addHook(d, event, hook{Type: "command", Command: c.hook("claude", event), Timeout: 10})
		if event == "SessionStart" || event == "Stop" {
			addHook(d, event,
				hook{Type: "command", Command: c.hook("claude", "wake"), Async: true, Rewake: true, Timeout: 86400})
		}
	}
}

func dropClaudeSettings(d *document) {
	if dropHooks(d) || d.was != nil {
		dropWord(d, "mailroom", "enabledMcpjsonServers")
		dropWord(d, "mcp__mailroom", "permissions", "allow")
	}
}

// claudeRefuses says whether Claude Code's hooks are switched off.
func claudeRefuses(p *place) string {
	user := claudeFiles(&place{home: p.home, user: true}, &connection{})[1].path
	settings := []string{user}
	if !p.user {
		own := claudeFiles(p, &connection{})[1].path
		settings = append(settings, own, filepath.Join(filepath.Dir(own), "settings.json"))
	}
	for _, path := range settings {
		var s struct {
			Off bool `json:"disableAllHooks"`
		}
		if decode(path, &s); s.Off {
			return "hooks are switched off in " + path
		}
	}
	return ""
}
