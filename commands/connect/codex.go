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

	"mailroom/orchestrator"
)

// codex is Codex.
var codex = host{
	name: "codex", program: "codex",
	files: codexFiles, refuses: codexRefuses, shares: true,
	asks: "Trust the folder, and its hooks when it asks for a review: it runs none of them before. They begin with your first prompt.",
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

// codexFiles: the commands of the hooks must stay the same, since Codex asks again about every one that changes. The
// hook UserPromptSubmit also starts the process that wakes the session; --program tells it where Codex lies.
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
		{path: filepath.Join(filepath.Dir(path), "config.toml"), add: c.addTable, remove: dropTable, decode: decodeTOML,
			server: "mcp_servers"},
		{path: path, add: plainJSON(edit(hooks)), remove: undo(func(d *document) { dropHooks(d) }), decode: decodeJSON},
	}
}

// The marks that earlier versions wrote beside our table.
const (
	beginMark = "# mailroom begin"
	endMark   = "# mailroom end"
)

// codexTable is where our tools stand in Codex's configuration.
var codexTable = []string{"mcp_servers", "mailroom"}

// codexServer returns the server of the tools in Codex's configuration; nil if there is none.
func codexServer(all map[string]any) map[string]any {
	servers, _ := all["mcp_servers"].(map[string]any)
	server, _ := servers["mailroom"].(map[string]any)
	return server
}

// addTable adds our table, or brings the one up to date that is there, in whichever of TOML's forms Codex or the user
// has written it.
func (c *connection) addTable(before []byte) ([]byte, error) {
	t, all, err := parseTOML(before)
	if err != nil {
		return nil, err
	}
	server := codexServer(all)
	words := append([]string{c.program}, c.serve("codex")...)
	if server != nil {
		if own(commandOf(server), toolsAt) == nil {
			return nil, errNotOurs
		}
		words = replaced(commandOf(server), words, toolsAt)
	}
	args, err := orchestrator.JSON(words[1:]) // a list of strings is the same in TOML
	if err != nil {
		return nil, err
	}
	fields := []tomlField{{"command", string(orchestrator.JSONString(words[0]))}, {"args", string(args)},
		{"tool_timeout_sec", "120"}, {"default_tools_approval_mode", ""}}
	if !c.ask {
		fields[3].value = `"approve"`
	}
	var after []byte
	if server != nil {
		after, err = t.set(codexTable, server, fields)
	} else {
		after = t.addServer(fields)
	}
	if err == nil && !onlyServerDiffers(before, after, fields) {
		err = errors.New("its form is one that Mailroom cannot change safely")
	}
	if err != nil {
		return nil, fmt.Errorf("%w. By hand, give it the table mcp_servers.mailroom with %s", err,
			strings.Join(lines(fields), ", "))
	}
	return after, nil
}

// lines are values as they stand in a table.
func lines(fields []tomlField) (list []string) {
	for _, f := range fields {
		if f.value != "" {
			list = append(list, f.name+" = "+f.value)
		}
	}
	return list
}

// addServer adds our table at the end, where it disturbs nothing, or to the inline table of all servers.
func (t *tomlText) addServer(fields []tomlField) []byte {
	own := lines(fields)
	if i := slices.IndexFunc(t.parts, func(p tomlPart) bool { return p.table && p.is("mcp_servers") }); i >= 0 {
		table := "mailroom = { " + strings.Join(own, ", ") + " }"
		holder := t.parts[i].value
		last := holder + 1
		for j := i + 1; j < len(t.parts) && t.parts[j].inline; j++ {
			if t.holder(&t.parts[j]) == holder {
				last = t.parts[j].end
			}
		}
		if last == holder+1 {
			return t.edited([]tomlEdit{{last, last, " " + table + " "}})
		}
		return t.edited([]tomlEdit{{last, last, ", " + table}})
	}
	gap := ""
	switch {
	case len(t.text) == 0:
	case bytes.HasSuffix(t.text, []byte("\n")):
		gap = t.eol
	default:
		gap = t.eol + t.eol
	}
	text := gap + "[mcp_servers.mailroom]" + t.eol + strings.Join(own, t.eol) + t.eol
	return append(bytes.Clone(t.text), text...)
}

// onlyServerDiffers reports whether a changed configuration says what it said before, but for our server, which has
// these values.
func onlyServerDiffers(before, after []byte, fields []tomlField) bool {
	_, was, err := parseTOML(before)
	if err != nil {
		return false
	}
	_, is, err := parseTOML(after)
	if err != nil {
		return false
	}
	had, server := codexServer(was), codexServer(is)
	if len(fields) == 0 && server != nil {
		return false
	}
	for _, f := range fields {
		if v, has := server[f.name]; has != (f.value != "") || has && !sameTOML(v, f.value) {
			return false
		}
		delete(had, f.name)
		delete(server, f.name)
	}
	if len(fields) > 0 && fmt.Sprintf("%#v", had) != fmt.Sprintf("%#v", server) && len(had)+len(server) > 0 {
		return false // the user's own values of it
	}
	for _, all := range []map[string]any{was, is} {
		if servers, _ := all["mcp_servers"].(map[string]any); servers != nil {
			if delete(servers, "mailroom"); len(servers) == 0 {
				delete(all, "mcp_servers")
			}
		}
	}
	return fmt.Sprintf("%#v", was) == fmt.Sprintf("%#v", is)
}

// dropTable takes our table out, in whichever form it stands, and what of it is at other places of the file.
func dropTable(before, was []byte) ([]byte, error) {
	t, all, err := parseTOML(before)
	if err != nil {
		return nil, err
	}
	if own(commandOf(codexServer(all)), toolsAt) == nil {
		return before, nil
	}
	after := t.remove(codexTable)
	if !onlyServerDiffers(before, after, nil) {
		return nil, errors.New("its form is one that Mailroom cannot change safely. By hand, take the table mcp_servers.mailroom out")
	}
	if len(was) == 0 && len(bytes.TrimSpace(after)) == 0 {
		return nil, nil
	}
	return after, nil
}
