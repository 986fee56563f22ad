package connect

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/pattern"
)

// opencode is OpenCode, which runs plugins in place of hooks.
var opencode = host{
	name: "opencode", program: "opencode",
	files: openCodeFiles, shares: true,
	asks: "For any plugin it installs a package from npm's registry, once in each folder; without a network it waits for that.",
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
		if dropServer(d, "mcp") || d.was != nil {
			dropValue(d, "ask", "permission", openCodeTools)
		}
	}
	return []file{
		{path: config, add: edit(add), remove: undo(drop), decode: decodeJSON, server: "mcp"},
		{path: filepath.Join(own, "plugins", "mailroom.js"), add: c.addPlugin, remove: dropPlugin},
	}
}

// openCodeConfig returns which of the two files is ours to change: the one that has our tools, or else the one that is
// there.
func openCodeConfig(folder string) string {
	config := filepath.Join(folder, "opencode.json")
	for _, path := range []string{config, config + "c"} {
		f := file{path: path, decode: decodeJSON, server: "mcp"}
		if text, _, err := read(path); err == nil && f.tools(text) != nil {
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
	if _, err := dropPlugin(before, nil); err != nil {
		return nil, err
	}
	words := []string{c.program, "hook", "stream", "--host", "opencode", "--as", c.agent, "--db", c.database}
	var has []string
	if found := pluginCommand().FindSubmatch(before); found != nil && json.Unmarshal(found[1], &has) == nil {
		words = replaced(has, words, hookAt)
	}
	return pluginRunning(words...)
}

// pluginCommand is the line of the plugin with the command that it runs.
var pluginCommand = pattern.New(`(?m)^const COMMAND = (\[.*\])\r?$`)

// pluginRunning returns the plugin with a command.
func pluginRunning(command ...string) ([]byte, error) {
	text, err := orchestrator.JSON(command)
	return []byte(strings.Replace(openCodePlugin, "const COMMAND = []\n", "const COMMAND = "+string(text)+"\n", 1)), err
}

// pluginWords stand in the plugin, whatever its version.
const pluginWords = "written by `mailroom connect opencode`"

// dropPlugin leaves nothing of a plugin of ours.
func dropPlugin(before, _ []byte) ([]byte, error) {
	if len(bytes.TrimSpace(before)) > 0 && !bytes.Contains(before, []byte(pluginWords)) {
		return nil, errors.New("it is a plugin that connect has not written")
	}
	return nil, nil
}
