package hook

import (
	_ "embed"
	"strings"
)

//go:embed opencode/mailroom.js
var openCodeSource string

// openCodePlugin returns the plugin, for .opencode/plugins/mailroom.js, by which OpenCode shows its model what this command
// writes, which is to run `mailroom hook stream`.
func openCodePlugin(command []string) string {
	return strings.Replace(openCodeSource, "const COMMAND = []\n", "const COMMAND = "+string(mustJSON(command)), 1)
}

// opencode is OpenCode. It runs no hooks but plugins, of which ours keeps a Stream running.
var opencode = Host{Name: "opencode", programs: []string{"opencode"}, streams: true}
