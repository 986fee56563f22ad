package connect

import (
	"cmp"
	"os"
	"path/filepath"

	"mailroom/orchestrator/pattern"
)

// gemini is the Gemini CLI.
var gemini = host{
	name: "gemini", program: "gemini",
	files: geminiFiles, refuses: geminiRefuses, sleeps: true, replaces: pattern.New(`\$(\w|\{[^}])`),
	asks: "It asks whether to trust the folder, and warns once about new hooks. Without trust it uses neither tools nor hooks.",
}

var geminiEvents = []string{"SessionStart", "BeforeAgent", "AfterTool", "AfterAgent", "SessionEnd"}

// geminiHome is where the folder of the user's own configuration lies.
func geminiHome(p *place) string { return cmp.Or(os.Getenv("GEMINI_CLI_HOME"), p.home) }

func geminiFiles(p *place, c *connection) []file {
	folder := p.folder
	if p.user {
		folder = geminiHome(p)
	}
	add := func(d *document) {
		c.putServer(d, "mcpServers", c.geminiServer(!c.ask), "trust")
		c.geminiHooks(d)
	}
	remove := func(d *document) {
		dropServer(d, "mcpServers")
		dropHooks(d)
	}
	return []file{{
		path: filepath.Join(folder, ".gemini", "settings.json"), add: commentedJSON(edit(add)), remove: undo(remove),
		decode: decodeJSON, server: "mcpServers", noMark: true,
	}}
}

func (c *connection) geminiServer(trust bool) any {
	return struct {
		Command string   `json:"command"`
		Args    []string `json:"args"`
		Timeout int      `json:"timeout"`
		Trust   bool     `json:"trust,omitempty"`
	}{c.program, c.serve("gemini"), 120_000, trust}
}

func (c *connection) geminiHooks(d *document) {
	for _, event := range geminiEvents {
		addHook(d, event, hook{Type: "command", Command: c.hook("gemini", event), Timeout: 10_000})
	}
}

// geminiRefuses says whether Gemini's hooks are switched off, or it was told not to trust the folder.
func geminiRefuses(p *place) string {
	own := filepath.Join(geminiHome(p), ".gemini")
	var trust map[string]string
	path := filepath.Join(own, "trustedFolders.json")
	if decode(path, &trust); !p.user && trust[p.folder] == "DO_NOT_TRUST" {
		return "the folder is not trusted in " + path
	}
	settings := []string{filepath.Join(own, "settings.json")}
	if !p.user {
		settings = append(settings, filepath.Join(p.folder, ".gemini", "settings.json"))
	}
	for _, path := range settings {
		var s struct {
			Hooks struct {
				Enabled *bool `json:"enabled"`
			} `json:"hooksConfig"`
		}
		if decode(path, &s); s.Hooks.Enabled != nil && !*s.Hooks.Enabled {
			return "hooks are switched off in " + path
		}
	}
	return ""
}
