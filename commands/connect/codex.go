package connect

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"mailroom/orchestrator"
)

// codex is Codex.
var codex = host{
	name: "codex", program: "codex",
	files: codexFiles, refuses: codexRefuses, shares: true,
	next: []string{
		"Start codex in this folder, trust the folder, and when it says that hooks need review choose to trust them: until then it runs none of them. Then type a first prompt, with which they begin.",
	},
}

var codexEvents = []string{"SessionStart", "UserPromptSubmit", "PostToolUse", "Stop"}

// codexHome is the folder of the user's own configuration.
func codexHome(p *place) string {
	return cmp.Or(os.Getenv("CODEX_HOME"), filepath.Join(p.home, ".codex"))
}

// codexHooksFile is the file of the hooks.
func codexHooksFile(p *place) string {
	if p.user {
		return filepath.Join(codexHome(p), "hooks.json")
	}
	return filepath.Join(p.folder, ".codex", "hooks.json")
}

// codexFiles: the commands of the hooks must stay the same, since Codex asks again about every one that changes. The hook
// UserPromptSubmit also starts the process that wakes the session; --program tells it where Codex lies.
func codexFiles(p *place, c *connection) []file {
	path := codexHooksFile(p)
	hooks := func(d *document) {
		for _, event := range codexEvents {
			command := c.hook("codex", event)
			if event == "UserPromptSubmit" && c.host != "" {
				command += " --program " + orchestrator.ShellWord(c.host)
			}
			addHook(d, event, hook{Type: "command", Command: command, Timeout: 10})
		}
	}
	return []file{
		{filepath.Join(filepath.Dir(path), "config.toml"), c.addTable, dropTable},
		{path, plainJSON(edit(hooks)), edit(dropHooks)},
	}
}

// The marks beside our table in Codex's configuration. A table at the end disturbs nothing.
const (
	beginMark = "# mailroom begin\n"
	endMark   = "# mailroom end\n"
)

// codexServers are the tools in Codex's configuration.
type codexServers struct {
	Servers map[string]any `toml:"mcp_servers"`
}

func (c *connection) addTable(before []byte) ([]byte, error) {
	rest, table, err := cutTable(before)
	if err != nil {
		return nil, err
	}
	var servers codexServers
	if err := toml.Unmarshal(rest, &servers); err != nil {
		return nil, err
	}
	if servers.Servers["mailroom"] != nil {
		return nil, errors.New("it has a server mailroom already, which connect has not written")
	}
	args, err := orchestrator.JSON(c.serve("codex")) // a list of strings is the same in TOML
	if err != nil {
		return nil, err
	}
	own := fmt.Sprintf("[mcp_servers.mailroom]\ncommand = %s\nargs = %s\ntool_timeout_sec = 120\n", orchestrator.JSONString(c.program), args)
	if !c.ask {
		own += "default_tools_approval_mode = \"approve\"\n"
	}
	if table == own {
		return before, nil
	}
	gap := ""
	switch {
	case len(rest) == 0:
	case bytes.HasSuffix(rest, []byte("\n")):
		gap = "\n"
	default:
		gap = "\n\n"
	}
	return append(rest, gap+beginMark+own+endMark...), nil
}

func dropTable(before []byte) ([]byte, error) {
	rest, _, err := cutTable(before)
	if strings.TrimSpace(string(rest)) == "" {
		return nil, err
	}
	return rest, err
}

// cutTable returns a configuration of Codex's without our table and its marks, and the table; "" if there is none. Codex writes into
// this file, too: with --user it keeps there which hooks it trusts, between the marks, and it may drop a mark. So the table ends
// where another begins.
func cutTable(text []byte) (rest []byte, table string, err error) {
	if !hasServer(text) {
		return bytes.Clone(text), "", nil
	}
	lines, found := strings.SplitAfter(string(text), "\n"), false
	for start, line := range lines {
		if line != "[mcp_servers.mailroom]\n" {
			continue
		}
		var before, after string
		before, table, after = cutAt(lines, start)
		if !connected.MatchString(table) {
			continue
		}
		if rest = []byte(before + after); !hasServer(rest) { // or this one is inside a string
			return rest, table, nil
		}
		found = true
	}
	if found {
		return nil, "", errors.New("the table of mailroom cannot be told from the rest")
	}
	return bytes.Clone(text), "", nil
}

// hasServer reports whether a configuration has a server of the name mailroom, or cannot be read.
func hasServer(text []byte) bool {
	var all codexServers
	return toml.Unmarshal(text, &all) != nil || all.Servers["mailroom"] != nil
}

// cutAt cuts our table, which begins with the line at start, and its marks out of the lines of a configuration.
func cutAt(lines []string, start int) (before, table, after string) {
	end := start + 1
	for end < len(lines) && lines[end] != endMark && (!strings.HasPrefix(lines[end], "[") || strings.HasPrefix(lines[end], "[mcp_servers.mailroom.")) {
		end++
	}
	for lines[end-1] == "\n" || strings.HasPrefix(lines[end-1], "#") { // of the next table
		end--
	}
	table, rest := strings.Join(lines[start:end], ""), lines[end:]
	if i := slices.Index(rest, endMark); i >= 0 {
		rest = slices.Delete(slices.Clone(rest), i, i+1)
	}
	if start > 0 && lines[start-1] == beginMark {
		start--
	}
	if start > 0 && lines[start-1] == "\n" {
		start--
	}
	return strings.Join(lines[:start], ""), table, strings.Join(rest, "")
}
