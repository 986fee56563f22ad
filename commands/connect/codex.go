package connect

import (
	"bytes"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"mailroom/orchestrator"
)

// codex is Codex.
var codex = host{
	name: "codex", program: "codex",
	files: codexFiles, distrusts: codexDistrusts, shares: true,
	next: []string{
		"Start codex in this folder, trust the folder, and when it says that hooks need review choose to trust them: until then it runs none, without a word.",
	},
}

var codexEvents = []string{"SessionStart", "UserPromptSubmit", "PostToolUse", "Stop"}

// codexFiles: the commands of the hooks must stay the same, since Codex asks again about every one that changes. That for a prompt
// starts what wakes the session, with Codex's own program.
func codexFiles(p *place, c *connection) []file {
	folder := p.folder
	if p.user {
		folder = p.home
	}
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
		{filepath.Join(folder, ".codex", "config.toml"), c.addBlock, dropBlock},
		{filepath.Join(folder, ".codex", "hooks.json"), edit(hooks), edit(dropHooks)},
	}
}

// block is what is ours in Codex's configuration: TOML, in which a table at the end disturbs nothing.
var block = regexp.MustCompile(`\n?# mailroom begin\n(?:[^#\n].*\n)*# mailroom end\n`)

func (c *connection) addBlock(before []byte) ([]byte, error) {
	rest, err := dropBlock(before)
	if err != nil {
		return nil, err
	}
	var servers struct {
		Servers map[string]any `toml:"mcp_servers"`
	}
	if err := toml.Unmarshal(rest, &servers); err != nil {
		return nil, err
	}
	if servers.Servers["mailroom"] != nil {
		return nil, fmt.Errorf("it has a server mailroom already, which connect has not written")
	}
	args, err := orchestrator.JSON(c.serve("codex")) // a list of strings is the same in TOML
	if err != nil {
		return nil, err
	}
	own := fmt.Sprintf("# mailroom begin\n[mcp_servers.mailroom]\ncommand = %s\nargs = %s\ntool_timeout_sec = 120\n", orchestrator.JSONString(c.program), args)
	if !c.ask {
		own += "default_tools_approval_mode = \"approve\"\n"
	}
	own += "# mailroom end\n"
	switch {
	case len(rest) == 0:
	case bytes.HasSuffix(rest, []byte("\n")):
		own = "\n" + own
	default:
		own = "\n\n" + own
	}
	if found := block.FindIndex(before); found != nil && string(before[found[0]:found[1]]) == own {
		return before, nil
	}
	return append(bytes.Clone(rest), own...), nil
}

func dropBlock(before []byte) ([]byte, error) {
	rest := block.ReplaceAll(before, nil)
	if strings.TrimSpace(string(rest)) == "" {
		return nil, nil
	}
	return rest, nil
}
