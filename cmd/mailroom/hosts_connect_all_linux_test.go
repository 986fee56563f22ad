//go:build hosts

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// owned is an existing configuration of a host, with a hook and a tool server that are not Mailroom's. FOREIGN stands
// for the command of the hook, SERVER and ARGS for those of the server, which acts as carol.
type owned struct {
	files map[string]string
	other string // prefix of the names of the server's tools
	again bool   // the hook may run more than once in a turn: Kilo becomes idle after each prompt within it
	start func(k *desk) *sitting
}

// configurations are the configurations by host, with comments where the host accepts them.
var configurations = map[string]owned{
	"claude": {
		files: map[string]string{
			".mcp.json":                   `{"mcpServers": {"other": {"command": "SERVER", "args": ARGS, "alwaysLoad": true}}}`,
			".claude/settings.local.json": `{"enabledMcpjsonServers": ["other"], "permissions": {"allow": ["mcp__other"]}, "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "FOREIGN"}]}]}}`,
		},
		other: "mcp__other__",
		start: func(k *desk) *sitting {
			s := k.start(k.claudeEnv(), "-p", "Do it.")
			s.in.Close()
			return &sitting{session: s}
		},
	},
	"codex": {
		files: map[string]string{
			".codex/config.toml": `# which model
model = "gpt-5.2-codex"
model_provider = "test"
sandbox_mode = "danger-full-access"
approval_policy = "never" # never
[model_providers.test]
name = "test"
base_url = "MODEL/v1"
wire_api = "responses"
requires_openai_auth = false
[features]
hooks = true
[mcp_servers.other] # mine
command = "SERVER"
args = ARGS
default_tools_approval_mode = "approve"
`,
			".codex/hooks.json": `{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "FOREIGN"}]}]}}`,
		},
		start: func(k *desk) *sitting {
			s := k.start(nil, "exec", "--dangerously-bypass-hook-trust", "--skip-git-repo-check", "Do it.")
			s.in.Close()
			return &sitting{session: s}
		},
	},
	"gemini": {
		files: map[string]string{".gemini/settings.json": `{
  // how I pay
  "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": false}},
  "privacy": {"usageStatisticsEnabled": false}, "general": {"enableAutoUpdate": false},
  "mcpServers": {"other": {"command": "SERVER", "args": ARGS, "trust": true}}, /* mine */
  "hooks": {"AfterAgent": [{"hooks": [{"type": "command", "command": "FOREIGN"}]}]}
}`},
		other: "mcp_other_",
		start: func(k *desk) *sitting { return &sitting{session: k.startGemini("Do it.")} },
	},
	"opencode": {
		files: map[string]string{
			"opencode.json": `{
  "$schema": "https://opencode.ai/config.json", // without it OpenCode adds it
  // my model
  "model": "mock/mock", "small_model": "mock/mock",
  "provider": {"mock": {"npm": "@ai-sdk/openai-compatible", "name": "Mock", "options": {"baseURL": "MODEL/v1", "apiKey": "none"},
    "models": {"mock": {"name": "Mock", "tool_call": true}}}},
  "mcp": {"other": {"type": "local", "command": ["SERVER", LIST], "enabled": true}}, /* mine */
}`,
			".opencode/plugins/other.js": `import { execSync } from "node:child_process"
export const Other = async () => ({ event: async ({ event }) => { if (event.type === "session.idle") execSync("FOREIGN") } })
`,
		},
		other: "other_",
		start: seats["opencode"].prompted,
	},
	"kilo": {
		files: map[string]string{
			"kilo.json": `{
  "$schema": "https://app.kilo.ai/config.json", // without it Kilo adds it
  "model": "mock/mock", "small_model": "mock/mock",
  "permission": {"bash": "allow", "other_*": "allow"}, /* mine */
  "provider": {"mock": {"npm": "@ai-sdk/openai-compatible", "name": "Mock", "options": {"baseURL": "MODEL/v1", "apiKey": "none"},
    "models": {"mock": {"name": "Mock", "tool_call": true}}}},
  "mcp": {"other": {"type": "local", "command": ["SERVER", LIST], "enabled": true}},
}`,
			".kilo/plugins/other.js": `import { execSync } from "node:child_process"
export const Other = async () => ({ event: async ({ event }) => { if (event.type === "session.idle") execSync("FOREIGN") } })
`,
		},
		other: "other_",
		again: true,
		start: seats["kilo"].prompted,
	},
	"pi": {
		files: map[string]string{
			".pi/mcp.json": `{"mcpServers": {"other": {"command": "SERVER", "args": ARGS, "exposure": "direct"}}}`,
			".pi/extensions/other.js": `import { execSync } from "node:child_process"
export default function (pi) { pi.on("agent_settled", async () => { execSync("FOREIGN") }) }
`,
		},
		other: "mcp__other__",
		start: seats["pi"].prompted,
	},
	"qwen": {
		files: map[string]string{"shop/.qwen/settings.json": `{
  "$version": 4, // without it Qwen Code adds it
  "mcpServers": {"other": {"command": "SERVER", "args": ARGS, "trust": true}},
  "tools": {"visible": ["mcp__other__SendMessage"]}, /* mine */
  "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "FOREIGN"}]}]}
}`},
		other: "mcp__other__",
		start: func(k *desk) *sitting { return &sitting{session: k.qwen("Do it.")} },
	},
	"copilot": {
		files: map[string]string{
			"shop/.mcp.json":               `{"mcpServers": {"other": {"type": "local", "command": "SERVER", "args": ARGS, "tools": ["*"]}}}`,
			"shop/.github/hooks/mine.json": `{"version": 1, "hooks": {"agentStop": [{"type": "command", "bash": "FOREIGN"}]}}`,
		},
		other: "other-",
		start: func(k *desk) *sitting { return &sitting{session: k.copilot("Do it.")} },
	},
}

// foreign is the file to which the user's own hook appends a line.
func (k *desk) foreign() string { return filepath.Join(k.folder, "foreign") }

// owns writes a user's configuration, and returns its files.
func (k *desk) owns(o owned) map[string]string {
	k.t.Helper()
	args, err := json.Marshal([]string{"mcp", "--as", "carol", "--vocabulary", "team", "--db", k.db})
	if err != nil {
		k.t.Fatal(err)
	}
	fill := strings.NewReplacer("FOREIGN", "echo >>"+k.foreign(), "SERVER", k.mailroom(), "ARGS", string(args), "LIST",
		strings.Trim(string(args), "[]"),
		"MODEL", k.model.server.URL)
	files := map[string]string{}
	for name, text := range o.files {
		files[name] = fill.Replace(text)
		k.write(name, files[name])
	}
	return files
}

// TestHostsConnectedAndRemoved checks that connect adds tools and messages to an existing configuration, that
// --remove removes them and restores the configuration to the byte, and that connect can add them again. All the time
// the user's own hook runs, and their own server answers.
func TestHostsConnectedAndRemoved(t *testing.T) {
	t.Parallel()
	for name, o := range configurations {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := seats[name].desk(t)
			k.run("agent", "add", "carol")
			files := k.owns(o)
			k.connects("--as", "bob")
			first := k.send("The first.")
			k.works(o, 1, first)
			k.stand("read")

			k.connects("--remove")
			for _, name := range slices.Sorted(maps.Keys(files)) {
				text, err := os.ReadFile(filepath.Join(k.folder, name))
				if err != nil || string(text) != files[name] {
					t.Errorf("%s: %v\n%s\nwas\n%s", name, err, text, files[name])
				}
			}
			second := k.send("The second.")
			k.works(o, 2)
			k.stand("read", "unread")

			k.connects("--as", "bob")
			k.works(o, 3, second)
			k.stand("read", "read")
		})
	}
}

// works runs the host for the nth turn. If there are messages, its model is shown them and has Mailroom's tools;
// otherwise neither. The model uses the user's server.
func (k *desk) works(o owned, n int, ids ...string) {
	k.t.Helper()
	s := o.start(k)
	s.seat = seats[k.host]
	r := s.asks()
	if tool := s.tools + "send_message"; r.offers(tool) != (len(ids) > 0) {
		k.t.Errorf("turn %d: the model is offered %q", n, r.tools(r.body))
	}
	if len(ids) > 0 {
		r = s.isShown(r, ids[0])
	}
	r.calls(o.other+"SendMessage", map[string]any{"to": "alice", "message": "All is well."})
	r = s.asks()
	r.shows(ids...)
	if sent := k.rows(`SELECT count(*) FROM agent_message WHERE sender = 'carol'`); !slices.Equal(sent,
		[]string{fmt.Sprint(n)}) {
		k.t.Errorf("turn %d: carol has sent %s messages; the model is told\n%s", n, sent, r.text())
	}
	r.says("Done.")
	if s.live == nil {
		s.ends()
	} else {
		s.turnEnds()
	}
	k.until("the person's hook runs", func() bool {
		text, _ := os.ReadFile(k.foreign())
		ran := bytes.Count(text, []byte("\n"))
		return ran == n || o.again && ran > n
	})
	s.await(`SELECT count(*) FROM reading_lease`, "0")
	s.kill()
	k.until("Mailroom's processes end with their host", func() bool { return len(k.processes()) == 0 })
}
