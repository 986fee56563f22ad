package connect

import (
	"bytes"
	"cmp"
	_ "embed"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"mailroom/orchestrator"
)

// opencode is OpenCode, which runs plugins in place of hooks.
var opencode = host{
	name: "opencode", program: "opencode",
	files: openCodeFiles, shares: true,
	next: []string{
		"Restart opencode in this folder. For any plugin it installs a package from npm's registry, once in each folder; without a network it waits for that.",
	},
}

//go:embed opencode/mailroom.js
var openCodePlugin string

// openCodeFiles: OpenCode reads opencode.json and opencode.jsonc.
func openCodeFiles(p *place, c *connection) []file {
	folder, own := p.folder, filepath.Join(p.folder, ".opencode")
	if p.user {
		folder = filepath.Join(cmp.Or(os.Getenv("XDG_CONFIG_HOME"), filepath.Join(p.home, ".config")), "opencode")
		own = folder
	}
	config := openCodeConfig(folder)
	add := func(d *document) {
		c.putServer(d, "mcp", struct {
			Type    string   `json:"type"`
			Command []string `json:"command"`
			Enabled bool     `json:"enabled"`
			Timeout int      `json:"timeout"`
		}{"local", append([]string{c.program}, c.serve("opencode")...), true, 120_000})
		if rules := d.at(c.ask, "permission"); c.ask && rules == nil {
			d.err = errors.New("permission is no object")
		} else if c.ask {
			d.put(rules, 2, openCodeTools, "ask")
		} else if c.allow {
			dropValue(d, "ask", "permission", openCodeTools)
		}
	}
	drop := func(d *document) {
		dropServer(d, "mcp")
		dropValue(d, "ask", "permission", openCodeTools)
	}
	return []file{
		{config, edit(add), edit(drop)},
		{filepath.Join(own, "plugins", "mailroom.js"), c.addPlugin, dropPlugin},
	}
}

// openCodeConfig returns which of the two files is ours to change: the one that has our tools, or else the one that is there.
func openCodeConfig(folder string) string {
	config := filepath.Join(folder, "opencode.json")
	for _, path := range []string{config, config + "c"} {
		text, _, err := read(path)
		if plain := standardized(text); plain != nil {
			text = plain // otherwise it is broken, and refused if ours stands in it
		}
		if err == nil && connected.Match(text) {
			return path
		}
	}
	if exists(config + "c") {
		return config + "c"
	}
	return config
}

// openCodeTools are Mailroom's tools, as OpenCode names them.
const openCodeTools = "mailroom_*"

// addPlugin returns the plugin, with the command that it keeps running.
func (c *connection) addPlugin(before []byte) ([]byte, error) {
	if _, err := dropPlugin(before); err != nil {
		return nil, err
	}
	return pluginRunning(c.program, "hook", "stream", "--host", "opencode", "--as", c.agent, "--db", c.database)
}

// pluginRunning returns the plugin with a command.
func pluginRunning(command ...string) ([]byte, error) {
	text, err := orchestrator.JSON(command)
	return []byte(strings.Replace(openCodePlugin, "const COMMAND = []\n", "const COMMAND = "+string(text)+"\n", 1)), err
}

// pluginWords stand in the plugin, whatever its version.
const pluginWords = "written by `mailroom connect opencode`"

// dropPlugin leaves nothing of a plugin of ours.
func dropPlugin(before []byte) ([]byte, error) {
	if len(bytes.TrimSpace(before)) > 0 && !bytes.Contains(before, []byte(pluginWords)) {
		return nil, errors.New("it is a plugin that connect has not written")
	}
	return nil, nil
}
