package connect

import (
	"cmp"
	"os"
	"path/filepath"
)

// gemini is the Gemini CLI.
var gemini = host{
	name: "gemini", program: "gemini",
	files: geminiFiles,
	next:  []string{"Start gemini anew in this folder: it warns once that there are new hooks. It gets messages at its tool calls and prompts; nothing wakes it."},
}

var geminiEvents = []string{"SessionStart", "BeforeAgent", "AfterTool", "AfterAgent", "SessionEnd"}

func geminiFiles(p *place, c *connection) []file {
	folder := p.folder
	if p.user {
		folder = cmp.Or(os.Getenv("GEMINI_CLI_HOME"), p.home)
	}
	add := func(d *document) {
		c.putServer(d, "mcpServers", c.geminiServer(!c.ask))
		c.geminiHooks(d)
	}
	return []file{{filepath.Join(folder, ".gemini", "settings.json"), edit(add), edit(func(d *document) {
		dropServer(d, "mcpServers")
		dropHooks(d)
	})}}
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
