package connect

import (
	"encoding/json"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agenthost"
	"mailroom/orchestrator/pattern"
)

// released matches the version of a release.
var released = pattern.New(`^v\d+\.\d+\.\d+$`)

// Packages returns the files that hosts install as a plugin or an extension, by path. The files are for any user, so
// they name neither an agent nor a database: each process of a host is an agent of its own, in the database of its
// folder. A version that is not a release becomes 0.0.0.
func Packages(version string) map[string][]byte {
	if !released().MatchString(version) {
		version = "v0.0.0"
	}
	version = strings.TrimPrefix(version, "v")
	const about = "Messages between agents. Your model sends messages with tools, and sees new messages while it works."
	c := &connection{program: "mailroom", agent: orchestrator.Auto, vocabularies: []string{"relay"}, choices: choices{Ask: true}}
	servers := func(h *agenthost.Host) map[string]any {
		return map[string]any{"mailroom": c.server(h, &h.Files[0])}
	}
	claude, gemini, openCode := agenthost.Find("claude"), agenthost.Find("gemini"), agenthost.Find("opencode")
	plugin, err := pluginRunning(openCode.Files[1].Script, "mailroom", "hook", "stream", "--host", "opencode")
	if err != nil {
		panic(err) // texts only
	}
	return map[string][]byte{
		"opencode/mailroom.js":      plugin,
		"opencode/README.md":        []byte(packagesPage),
		"claude/mailroom/README.md": []byte(packagesPage),
		"gemini/README.md":          []byte(packagesPage),
		"claude/.claude-plugin/marketplace.json": indented(map[string]any{
			"name": "mailroom-local", "owner": map[string]string{"name": "Mailroom"},
			"plugins": []any{map[string]string{"name": "mailroom", "source": "./mailroom", "description": about}},
		}),
		"claude/mailroom/.claude-plugin/plugin.json": indented(map[string]any{
			"name": "mailroom", "version": version, "description": about, "mcpServers": servers(claude),
		}),
		"claude/mailroom/hooks/hooks.json": c.packedHooks(claude),
		"gemini/gemini-extension.json": indented(map[string]any{
			"name": "mailroom", "version": version, "description": about, "mcpServers": servers(gemini),
		}),
		"gemini/hooks/hooks.json": c.packedHooks(gemini),
	}
}

// packedHooks returns a file that contains only the hooks of a host.
func (c *connection) packedHooks(h *agenthost.Host) []byte {
	text, err := edit(func(d *document) { c.putHooks(d, h, &h.Files[len(h.Files)-1]) })(nil)
	if err != nil {
		panic(err) // the document is empty, so nothing can conflict
	}
	return text
}

func indented(v any) []byte {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		panic(err) // only texts, lists and objects
	}
	return append(text, '\n')
}

const packagesPage = `# Mailroom as a plugin

Messages between the agents of a project. Each package runs ` + "`mailroom`" +
	`, which must be in PATH, with the database of the folder.
Run ` + "`mailroom init`" +
	` in the project once. Each terminal is a separate agent: claude, claude-2, gemini, and so on. The model in each
terminal gets the name of its agent. Without a database the hooks do nothing. Do not install a package if ` + "`mailroom connect`" +
	` has connected the same host.

For Claude Code, run these commands in the project. PLUGINS is the folder that ` + "`make plugins`" + ` wrote:

    claude plugin marketplace add PLUGINS/claude
    claude plugin install mailroom@mailroom-local --scope project

For Gemini CLI, run this command once for all your projects. Gemini CLI asks whether you trust the folders and the extension:

    gemini extensions install PLUGINS/gemini

For OpenCode, set MAILROOM_AGENT to the name of the agent, because all sessions share a process. Copy
PLUGINS/opencode/mailroom.js into .opencode/plugins of the project, and add the tools to its opencode.json:

    {"mcp": {"mailroom": {"type": "local", "command": ["mailroom", "mcp", "--vocabulary", "relay"], "enabled": true}}}

Codex has no package, because it trusts hooks one by one, and its sessions may share a process. To set up its tools and hooks, run
` + "`mailroom connect codex`" + `.
`
