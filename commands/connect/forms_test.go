package connect

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	foreigntoml "github.com/BurntSushi/toml"
	"github.com/tidwall/jsonc"
	"pgregory.net/rapid"

	"mailroom/commands"
	"mailroom/orchestrator"
	"mailroom/orchestrator/agenthost"
	"mailroom/orchestrator/orchestratortest/want"
)

// wired is a host's file, and its changes when an agent is connected and disconnected.
type wired struct {
	host string
	i    int // index in the host's files
	name string
}

func (w wired) file(agent string) file {
	c := &connection{program: "/opt/mail room/mailroom", agent: agent, database: "/data/" + agent + ".db",
		vocabularies: []string{"relay"}, allow: true}
	return filesOf(agenthost.Find(w.host), &agenthost.Place{Folder: "/nowhere", Home: "/nowhere"}, c)[w.i]
}

var wireds = []wired{
	{"claude", 0, ".mcp.json"}, {"claude", 1, ".claude/settings.local.json"}, {"codex", 0, ".codex/config.toml"},
	{"codex", 1, ".codex/hooks.json"},
	{"gemini", 0, ".gemini/settings.json"}, {"opencode", 0, "opencode.jsonc"},
	{"kilo", 0, ".kilo/kilo.jsonc"}, {"pi", 0, ".pi/mcp.json"}, {"qwen", 0, ".qwen/settings.json"},
	{"copilot", 0, ".mcp.json"}, {"copilot", 1, ".github/hooks/mailroom.json"},
}

// foreign decodes a configuration with a parser that connect does not use.
func foreign(name string, text []byte) (all map[string]any, err error) {
	text = []byte(strings.TrimPrefix(string(text), "\uFEFF"))
	if len(strings.TrimSpace(string(text))) == 0 {
		return map[string]any{}, nil
	}
	if strings.HasSuffix(name, ".toml") {
		_, err = foreigntoml.Decode(string(text), &all)
		return all, err
	}
	if !strings.HasSuffix(name, "c") && !strings.Contains(name, "gemini") && !strings.Contains(name, "qwen") {
		return all, json.Unmarshal(text, &all)
	}
	return all, json.Unmarshal(jsonc.ToJSON(text), &all)
}

// TestForeignStays checks that another parser reads the same values in a configuration of any content and form after
// connecting as one agent, connecting as another, and disconnecting. Comments and line ends are kept too.
func TestForeignStays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := rapid.SampledFrom(wireds).Draw(t, "file")
		text := []byte(documentOf(t, w))
		before, err := foreign(w.name, text)
		if err != nil {
			t.Skip(err)
		}
		is, at := text, text
		for _, agent := range []string{"bob", "bob", "carol"} {
			f := w.file(agent)
			after, err := f.changed(is, f.add)
			if err != nil {
				t.Fatalf("%s is refused: %v\n%s", w.name, err, is)
			}
			if agent == "bob" && string(is) != string(text) && string(after) != string(is) {
				t.Fatalf("connecting again has changed\n%s\nto\n%s", is, after)
			}
			now, err := foreign(w.name, after)
			if err != nil {
				t.Fatalf("%s cannot be read: %v\n%s", w.name, err, after)
			}
			if all := fmt.Sprint(now); !strings.Contains(all, agent+".db") || agent == "carol" &&
				strings.Contains(all, "bob.db") {
				t.Fatalf("%s is not connected as %s:\n%s", w.name, agent, after)
			}
			is = after
		}
		is = append(is, '\n') // an edit, so that the file cannot be restored as a whole
		f := w.file("carol")
		left, err := f.without(is, &record{After: "x", Before: new(string(text))})
		if err != nil {
			t.Fatalf("%s cannot be removed: %v\n%s", w.name, err, is)
		}
		after, err := foreign(w.name, left)
		if err != nil || fmt.Sprint(after) != fmt.Sprint(before) {
			t.Fatalf("%s: %v\nbefore\n%s\nconnected\n%s\nafter\n%s", w.name, err, at, is, left)
		}
		for n := range 40 {
			if note := fmt.Sprintf("note %d.", n); strings.Contains(string(text),
				note) != strings.Contains(string(left), note) {
				t.Fatalf("%s: the comment %q is not kept\nbefore\n%s\nafter\n%s", w.name, note, text, left)
			}
		}
		if crlf := strings.Count(string(text), "\r\n"); crlf > 0 &&
			strings.Count(string(is[:len(is)-1]), "\n") != strings.Count(string(is), "\r\n") {
			t.Fatalf("%s has lines of two kinds:\n%q", w.name, is)
		}
	})
}

// documentOf generates a configuration that a person may have.
func documentOf(t *rapid.T, w wired) string {
	eol := rapid.SampledFrom([]string{"\n", "\n", "\r\n"}).Draw(t, "line end")
	text := ""
	if strings.HasSuffix(w.name, ".toml") {
		text = tomlOf(t)
	} else {
		g := &writer{t: t, comments: w.host == "gemini" || w.host == "qwen" || w.host == "opencode", commas: w.host == "opencode"}
		text = g.space("") + g.object(w.host, 0) + g.space("")
		if rapid.Bool().Draw(t, "comment at the end") && g.comments {
			text += "// " + g.note()
		}
	}
	if eol != "\n" {
		text = strings.ReplaceAll(text, "\n", eol)
	}
	if w.host != "gemini" && rapid.IntRange(0, 9).Draw(t, "mark") == 0 {
		text = "\uFEFF" + text
	}
	return text
}

// writer writes JSON in forms that people use.
type writer struct {
	t                *rapid.T
	comments, commas bool
	notes            int
}

func (g *writer) note() string {
	g.notes++
	return fmt.Sprintf("note %d.", g.notes)
}

// space returns what may separate two tokens.
func (g *writer) space(usual string) string {
	kinds := []string{usual, usual, " ", "\n  ", "\n\n\t"}
	if g.comments {
		kinds = append(kinds, "LINE", "BLOCK")
	}
	switch s := rapid.SampledFrom(kinds).Draw(g.t, "space"); s {
	case "LINE":
		return " // " + g.note() + "\n  "
	case "BLOCK":
		return " /* " + g.note() + " */"
	default:
		return s
	}
}

func (g *writer) list(open, end string, items []string) string {
	text := open
	for i, item := range items {
		if i > 0 {
			text += g.space("") + ","
		}
		text += g.space("\n  ") + item
	}
	text += g.space("")
	if len(items) > 0 && g.commas && rapid.Bool().Draw(g.t, "comma") {
		text += "," + g.space("")
	}
	return text + end
}

// object generates a configuration with some of the objects in which Mailroom has entries.
func (g *writer) object(host string, _ int) string {
	server := `{"command":` + g.space("") + `"x", "args": [ "\u0061", "é" ]}`
	hook := func() string {
		return g.list("{", "}",
			[]string{`"hooks": ` + g.list("[", "]", []string{`{"type": "command", "command": "lint; say 'done'"}`})})
	}
	kinds := []func() string{
		func() string { return `"theme":` + g.space(" ") + `"dark"` },
		func() string { return `"number": 1.50` },
		func() string { return `"m\u0063p2": null` },
		func() string {
			return `"` + map[string]string{"opencode": "mcp"}[host] + `": ` + g.list("{", "}", nil)
		},
	}
	all := map[string]string{"opencode": "mcp"}[host]
	if all == "" {
		all = "mcpServers"
	}
	kinds[3] = func() string {
		items := rapid.SampledFrom([][]string{nil, {`"other": ` + server},
			{`"other": ` + server, `"mailroom2": ` + server}}).Draw(g.t, "servers")
		return `"` + all + `": ` + g.list("{", "}", items)
	}
	if host != "opencode" {
		kinds = append(kinds, func() string {
			event := rapid.SampledFrom([]string{"Stop", "AfterTool", "SessionStart"}).Draw(g.t, "event")
			items := rapid.SampledFrom([][]string{nil, {`"` + event + `": []`},
				{`"` + event + `": ` + g.list("[", "]", []string{hook()})}}).Draw(g.t, "hooks")
			return `"hooks": ` + g.list("{", "}", items)
		})
	}
	if host == "claude" {
		kinds = append(kinds, func() string {
			items := rapid.SampledFrom([][]string{nil, {`"allow": []`}, {`"allow": ["mcp__mailroom"]`, `"deny": ["x"]`},
				{`"allow": ["Read"]`}}).Draw(g.t, "permissions")
			return `"permissions": ` + g.list("{", "}", items)
		})
	}
	var items []string
	for _, kind := range kinds {
		if rapid.Bool().Draw(g.t, "member") {
			items = append(items, kind())
		}
	}
	return g.list("{", "}", items)
}

// tomlOf generates a configuration for Codex.
func tomlOf(t *rapid.T) string {
	notes := 0
	comment := func() string {
		notes++
		return rapid.SampledFrom([]string{"\n", fmt.Sprintf(" # note %d.\n", notes),
			fmt.Sprintf("\n# note %d.\n", notes), fmt.Sprintf("\n\n  # note %d.\n\n", notes)}).Draw(t, "comment")
	}
	text := rapid.SampledFrom([]string{"", "\n", "model = \"m\"" + comment(),
		"a.b.c = 1" + comment() + "d = [ 1, # note 30.\n 2 ]" + comment(),
		"s = '''\n[mcp_servers.mailroom]\ncommand = \"mailroom\"\n'''" + comment()}).Draw(t, "root")
	text += rapid.SampledFrom([]string{
		"", "mcp_servers = {}" + comment(), "mcp_servers = { a = { command = \"x\" } }" + comment(),
		"mcp_servers.a.command = \"x\"" + comment(),
		"\"mcp_servers\" = { 'a'.command = \"x\", b = { command = \"y\", args = [\"}\", \"#\"] } }" + comment(),
		"[mcp_servers]" + comment(), "[mcp_servers]" + comment() + "a = { command = \"x\" }" + comment(),
		"[ mcp_servers . \"a\" ]" + comment() + "command = \"x\"" + comment(),
		"[mcp_servers.a]" + comment() + "command = \"x\"" + comment() + "[mcp_servers.a.env]" + comment() +
			"A = \"1\"" + comment(),
	}).Draw(t, "servers")
	text += rapid.SampledFrom([]string{"", "[hooks.state]" + comment(), "[[list]]" + comment() + "a = 1" + comment() +
		"[[list]]\n", "[x]\ny = 2026-01-01"}).Draw(t, "rest")
	return text
}

// ourTable holds the values of our table.
const ourTable = `command = "/opt/mailroom"
args = ["mcp", "--as", "bob", "--vocabulary", "relay", "--db", "/data/bob.db"]
tool_timeout_sec = 120
`

// tables holds forms in which Codex or a user may have rewritten our table. Each form has another server, and a
// comment of the user.
var tables = map[string]string{
	"a table below": "# mine\n[mcp_servers.mailroom]\n" + ourTable + "[mcp_servers.other]\ncommand = \"y\"\n",
	"its own tables at another place": "[mcp_servers.mailroom]\n" + ourTable +
		"# mine\n[mcp_servers.other]\ncommand = \"y\"\n[mcp_servers.mailroom.env]\nA = \"1\"\n" +
		"[mcp_servers.mailroom.tools.x]\napproval_mode = \"prompt\"\n[last]\na = 1\n",
	"quoted": "[ \"mcp_servers\" . 'mailroom' ] # ours\n" + ourTable +
		"[mcp_servers.other] # mine\ncommand = \"y\"\n",
	"under one head":         "[mcp_servers]\n# mine\nother.command = \"y\"\nmailroom.command = '/opt/mailroom'\nmailroom.args = [\n  \"mcp\", '--as', \"bob\", # as\n  \"--vocabulary\", \"relay\",\n]\nmailroom.env = { A = \"1\" }\n",
	"from the root":          "mcp_servers.mailroom.command = \"x\"\nmcp_servers.mailroom.args = [\"mcp\", \"--as\", \"bob\", \"--vocabulary\", \"relay\"]\n# mine\nmcp_servers.other.command = \"y\"\n",
	"inline":                 "mcp_servers = { other = { command = \"y\" }, mailroom = { command = \"x\", args = [\"mcp\", \"--as\", \"bob\", \"--vocabulary\", \"relay\"], env = { A = \"1\" } } } # mine\n",
	"inline, first":          "mcp_servers = { mailroom.command = \"x\", mailroom.args = [\"mcp\", \"--as\", \"bob\", \"--vocabulary\", \"relay\"], other = { command = \"y\" } } # mine\n",
	"inline, last, by names": "mcp_servers = { other.command = \"y\", mailroom.command = \"x\", mailroom.args = [\"mcp\", \"--as\", \"bob\", \"--vocabulary\", \"relay\"] } # mine\n",
	"inline in a table":      "[mcp_servers]\nmailroom = { command = \"x\", args = [\"mcp\", \"--as\", \"bob\", \"--vocabulary\", \"relay\"] }\n# mine\nother = { command = \"y\" }",
	"wrapped":                "[mcp_servers.mailroom] # mine\ncommand = \"nice\"\nargs = [\"/opt/mailroom\", \"mcp\", \"--as\", \"bob\", \"--vocabulary\", \"relay\"]\n[mcp_servers.other]\ncommand = \"y\"\n",
}

// TestTablesInAnyForm checks that our table is found, updated and removed in whichever form it is written, and that
// the user's own values in it are kept until it is removed.
func TestTablesInAnyForm(t *testing.T) {
	for about, text := range tables {
		for _, eol := range []string{"\n", "\r\n"} {
			t.Run(about+fmt.Sprintf("%q", eol), func(t *testing.T) {
				text := strings.ReplaceAll(text, "\n", eol)
				f := wired{"codex", 0, ".codex/config.toml"}.file("carol")
				connected, err := f.changed([]byte(text), f.add)
				if err != nil {
					t.Fatal(err)
				}
				all, err := foreign(f.path, connected)
				if err != nil {
					t.Fatalf("%v:\n%s", err, connected)
				}
				server := all["mcp_servers"].(map[string]any)["mailroom"].(map[string]any)
				want.Equal(t, "agent", fmt.Sprint(server["args"]), strings.TrimPrefix(fmt.Sprint(server["args"]), " "))
				if words := own(commandOf(server), toolsAt); words == nil || words[0] != "/opt/mail room/mailroom" ||
					words[3] != "carol" || server["default_tools_approval_mode"] != "approve" {
					t.Errorf("it has become %v", server)
				}
				want.Equal(t, "the user's own env", server["env"] != nil, strings.Contains(text, "env"))
				want.Equal(t, "the user's wrapper", server["command"] == "nice", strings.Contains(text, "nice"))
				for _, text := range []string{text, string(connected)} {
					left, err := f.without([]byte(text), &record{})
					if err != nil {
						t.Fatal(err)
					}
					rest, err := foreign(f.path, left)
					if err != nil || fmt.Sprint(rest["mcp_servers"]) != "map[other:map[command:y]]" {
						t.Errorf("%v, %v:\n%s", err, rest, left)
					}
					if strings.Contains(string(left), "/opt/") || about != "wrapped" &&
						!strings.Contains(string(left), "# mine") ||
						strings.Contains(text, "[last]") != strings.Contains(string(left), "[last]") {
						t.Errorf("left is\n%s", left)
					}
				}
			})
		}
	}
}

// TestEncodings checks that a text that is not UTF-8 is refused, with the position, and is kept byte for byte. A byte
// order mark is kept where the host reads files with one.
func TestEncodings(t *testing.T) {
	for _, w := range wireds {
		for says, text := range map[string]string{
			"line 2 is not valid UTF-8, because it contains the byte 0xe9": "\n\xe9\n",
			"the file is in UTF-16": "\xff\xfe{\x00}\x00",
		} {
			d := newDesk(t)
			d.write(w.name, text)
			before := tree(t, d.project)
			_, err := d.try("bob", `{"host":"`+w.host+`"}`)
			if orchestrator.CodeOf(err) != orchestrator.InvalidParams || !strings.Contains(err.Error(), says) ||
				!strings.Contains(err.Error(), w.name) {
				t.Errorf("%s: %v", w.name, err)
			}
			d.same("refused", before)
			d.connect("", `{"host":"`+w.host+`","remove":true}`)
			d.same("not connected", before)
		}
		d := newDesk(t)
		text := "{}"
		if w.host == "codex" && w.i == 0 {
			text = "model = \"é\"\n"
		}
		path := d.write(w.name, "\uFEFF"+text)
		before := tree(t, d.project)
		_, err := d.try("bob", `{"host":"`+w.host+`"}`)
		if w.host == "gemini" {
			want.Equal(t, "code of a mark that Gemini does not read", orchestrator.CodeOf(err),
				orchestrator.InvalidParams)
			continue
		}
		if after := tree(t, d.project)[path]; err != nil || !strings.HasPrefix(after, "\uFEFF") ||
			strings.Count(after, "\uFEFF") != 1 {
			t.Errorf("%s: %v\n%s", w.name, err, after)
		}
		d.connect("", `{"host":"`+w.host+`","remove":true}`)
		d.same("removed", before)
	}
	// Later edits in another encoding are also kept.
	d := newDesk(t)
	d.connect("bob", `{"host":"gemini"}`)
	path := filepath.Join(d.project, ".gemini", "settings.json")
	d.write(".gemini/settings.json", strings.Replace(tree(t, d.project)[path], "{", "{ // \xe9\n", 1))
	before := tree(t, d.project)
	if _, err := d.try("", `{"host":"gemini","remove":true}`); orchestrator.CodeOf(err) != orchestrator.InvalidParams {
		t.Errorf("removed: %v", err)
	}
	d.same("refused", before)
}

// TestWhatTheUserGaveOurEntries checks that env and other values are kept when the host is connected again, and so is
// a command around ours.
func TestWhatTheUserGaveOurEntries(t *testing.T) {
	for _, h := range agenthost.Hosts {
		d := newDesk(t)
		d.connect("bob", `{"host":"`+h.Name+`"}`)
		program, err := commands.OwnPath()
		if err != nil {
			t.Fatal(err)
		}
		edit := strings.NewReplacer(
			`"command": "`+program+` hook Stop `, `"name": "mine", "command": "nice -n 5 `+program+` hook Stop `,
			`"command": "`+program+` hook AfterAgent `, `"name": "mine", "command": "nice -n 5 `+program+
				` hook AfterAgent `,
			`"command": "`+program+`",`, `"env": {"A": "1"}, "command": "env", "args0": 0,`,
			`"type": "local",`, `"type": "local", "environment": {"A": "1"},`,
			"tool_timeout_sec", "env = { A = \"1\" }\ntool_timeout_sec",
		)
		for path, text := range tree(t, d.project) {
			if text != "folder" {
				text = edit.Replace(text)
				if strings.Contains(text, `"args0"`) {
					text = strings.Replace(strings.Replace(text, ` "args0": 0,`, "", 1), `"args": [`,
						`"args": ["A=1", "`+program+`",`, 1)
				}
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		}
		edited := d.meaning()
		for _, f := range d.connect("bob", `{"host":"`+h.Name+`"}`).Files {
			want.Equal(t, f.Path, f.Change, "none")
		}
		d.connect("carol", `{"host":"`+h.Name+`"}`)
		want.Equal(t, h.Name+" as carol", d.meaning(), strings.ReplaceAll(edited, "bob", "carol"))
		d.connect("", `{"host":"`+h.Name+`","remove":true}`)
		for path, text := range tree(t, d.project) {
			if text != "folder" {
				t.Errorf("%s: %s is left:\n%s", h.Name, path, text)
			}
		}
	}
}

// TestWrapped checks that our command line within a command of the user is recognized if it is unambiguous, and is
// then replaced and removed. Any other command line that runs Mailroom is reported, also by doctor.
func TestWrapped(t *testing.T) {
	t.Parallel()
	const hook = "/bin/mailroom hook Stop --host claude --as bob --db '/data/b b.db'"
	const fresh = "/new/mailroom hook Stop --host claude --as carol"
	for line, becomes := range map[string]string{
		hook:                                     fresh,
		"nice -n 5 " + hook:                      "nice -n 5 " + fresh,
		"env A=1 timeout 5 " + hook:              "env A=1 timeout 5 " + fresh,
		"A='1 2' exec " + hook:                   "A='1 2' exec " + fresh,
		`sh -c "` + hook + `"`:                   "sh -c '" + fresh + "'",
		`nice bash -lc "exec ` + hook + `"`:      "nice bash -lc 'exec " + fresh + "'",
		"lint; " + hook:                          "",
		hook + " || true":                        "",
		`sh -c "lint && ` + hook + `"`:           "",
		"echo $(" + hook + ")":                   "",
		hook + "\nlint":                          "",
		hook + " >>/tmp/log":                     "",
		"/bin/mailroom hook Stop --host claude":  "",
		"mailroom mcp --as bob":                  "",
		"say 'mailroom hook Stop' # hook Stop x": "",
	} {
		if is := hookEvent(line); (is == "Stop") != (becomes != "") {
			t.Errorf("%s: event %q", line, is)
		}
		if becomes != "" {
			want.Equal(t, line, replacedIn(line, fresh, hookAt), becomes)
		}
	}
	tools := []string{"/new/mailroom", "mcp", "--as", "carol", "--vocabulary", "relay"}
	old := "/bin/mailroom mcp --as bob --vocabulary relay --db /x"
	want.Rows(t, replaced([]string{"sh", "-c", "exec " + old}, tools, toolsAt), "sh", "-c", "exec "+joined(tools))
	want.Rows(t, replaced(append([]string{"timeout", "9"}, strings.Fields(old)...), tools, toolsAt),
		append([]string{"timeout", "9"}, tools...)...)
}

// TestOthersAreNamed checks that connect, --remove and doctor report the lines that connect neither replaces nor
// removes.
func TestOthersAreNamed(t *testing.T) {
	for _, c := range []struct{ host, file, text, line string }{
		{"claude", ".claude/settings.local.json",
			`{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"lint; mailroom hook Stop --host claude --as bob"}]}]}}`, "lint; "},
		{"claude", ".mcp.json",
			`{"mcpServers":{"mail":{"command":"/x/mailroom","args":["mcp","--as","bob","--vocabulary","relay"]}}}`,
			"/x/mailroom mcp --as bob"},
		{"gemini", ".gemini/settings.json",
			`{"mcpServers":{"mail":{"command":"sh","args":["-c","cd /x && mailroom mcp --as bob"]}}}`, "cd /x"},
		{"opencode", "opencode.json", `{"mcp":{"mail":{"type":"local","command":["mailroom","mcp"]}}}`, "mailroom mcp"},
		{"codex", ".codex/config.toml",
			"[mcp_servers.mail]\ncommand = \"sh\"\nargs = ['-c', '''mailroom mcp --as \"bob\" # mine''']\n",
			"mailroom mcp --as"},
	} {
		d := newDesk(t)
		d.write(c.file, c.text)
		before := tree(t, d.project)
		t.Chdir(d.project)
		d.looks(false, "note", c.line)
		named := func(r Result) {
			t.Helper()
			for _, f := range r.Files {
				if strings.HasSuffix(f.Path, c.file) && len(f.Others) == 1 && strings.Contains(f.Others[0], c.line) {
					return
				}
			}
			t.Errorf("%s is not named: %+v", c.line, r.Files)
		}
		named(d.connect("bob", `{"host":"`+c.host+`"}`))
		named(d.connect("", `{"host":"`+c.host+`","remove":true}`))
		d.same("removed", before)
	}
}

// TestLeftOver checks that doctor finds our entries for which there is no record.
func TestLeftOver(t *testing.T) {
	for _, h := range agenthost.Hosts {
		d := newDesk(t)
		r := d.connect("bob", `{"host":"`+h.Name+`"}`)
		if err := os.RemoveAll(string(bookOf(d.env))); err != nil {
			t.Fatal(err)
		}
		t.Chdir(d.project)
		found := Look(t.Context(), d.env, true)
		want.Equal(t, h.Name+" files", len(found), len(r.Files))
		for _, f := range found {
			if f.Level != "note" || !strings.Contains(f.Says, "no connection is recorded") ||
				!strings.Contains(f.Do, "--remove") {
				t.Errorf("%+v", f)
			}
		}
		d.connect("", `{"host":"`+h.Name+`","remove":true}`)
		want.Equal(t, h.Name+" after --remove", len(Look(t.Context(), d.env, true)), 0)
	}
}

// TestHardLinks checks that a file with two names keeps both and remains one file.
func TestHardLinks(t *testing.T) {
	d := newDesk(t)
	path := d.write(".gemini/settings.json", "{}\n")
	second := filepath.Join(d.home, "settings.json")
	if err := os.Link(path, second); err != nil {
		t.Fatal(err)
	}
	linked := func() string {
		t.Helper()
		a, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.Stat(second)
		if err != nil || !os.SameFile(a, b) {
			t.Fatalf("they are two files: %v", err)
		}
		text, err := os.ReadFile(second)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	d.connect("bob", `{"host":"gemini"}`)
	if text := linked(); !strings.Contains(text, "bob") {
		t.Errorf("it has become\n%s", text)
	}
	d.connect("", `{"host":"gemini","remove":true}`)
	want.Equal(t, "text", linked(), "{}\n")
}

// TestNoneIsWritten checks that no file is written if one of them cannot be, both for connecting and for
// disconnecting.
func TestNoneIsWritten(t *testing.T) {
	for _, remove := range []bool{false, true} {
		d := newDesk(t)
		path := d.write(".claude/settings.local.json", "{}\n")
		if remove {
			d.connect("bob", `{"host":"claude"}`)
		}
		if err := os.Chmod(path, 0o444); err != nil {
			t.Fatal(err)
		}
		before := tree(t, d.project)
		_, err := d.try("bob", fmt.Sprintf(`{"host":"claude","remove":%t}`, remove))
		want.Equal(t, "code", orchestrator.CodeOf(err), orchestrator.Unavailable)
		d.same("refused", before)
	}
}

// TestChangedMeanwhile checks that a change that another program made since the file was read is not overwritten.
func TestChangedMeanwhile(t *testing.T) {
	d := newDesk(t)
	path := d.write("settings.json", "new")
	c := change{path, []byte("old"), []byte("ours")}
	if err := c.write(); err == nil || !strings.Contains(err.Error(), "just changed") {
		t.Errorf("written: %v", err)
	}
	c.after = nil
	if err := c.write(); err == nil {
		t.Error("removed")
	}
	want.Equal(t, "text", tree(t, d.project)[path], "new")
}

// TestNamesThatHostsReplace checks that a path in which a host would replace a variable is refused, or is written so
// that the host does not replace it.
func TestNamesThatHostsReplace(t *testing.T) {
	for _, c := range []struct {
		host, folder string
		refused      bool
	}{
		{"claude", "${HOME}", true}, {"claude", "${X:-y}", true}, {"claude", "$HOME", false},
		{"claude", "{env:HOME}", false},
		{"gemini", "${HOME}", true}, {"gemini", "a$HOME", true}, {"gemini", "$", false},
		{"gemini", "{env:HOME}", false},
		{"opencode", "${HOME}", false}, {"opencode", "{env:HOME}", false}, {"opencode", "{file:x}", false},
		{"codex", "${HOME}$HOME{env:HOME}", false},
	} {
		d := newDesk(t)
		database := filepath.Join(d.home, c.folder, "mailroom.db")
		d.env.Engine = d.open(database)
		before := tree(t, d.project)
		_, err := d.try("bob", `{"host":"`+c.host+`"}`)
		if c.refused {
			if orchestrator.CodeOf(err) != orchestrator.InvalidParams ||
				!strings.Contains(err.Error(), "environment variable") {
				t.Errorf("%s in %s: %v", c.host, c.folder, err)
			}
			d.same("refused", before)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		w, err := writtenIn(agenthost.Find(c.host), &agenthost.Place{Folder: d.project})
		want.Equal(t, c.folder+" read back", w.database, database)
		want.Equal(t, "error", err, nil)
		for _, f := range d.connect("bob", `{"host":"`+c.host+`"}`).Files {
			want.Equal(t, f.Path+" again", f.Change, "none")
			text := tree(t, d.project)[f.Path]
			if strings.HasSuffix(f.Path, "opencode.json") &&
				(strings.Contains(text, "{env:") || strings.Contains(text, "{file:")) {
				t.Errorf("OpenCode replaces part of\n%s", text)
			}
		}
	}
}

// TestRemoveLeavesNoComma checks that no trailing comma is left if the value before ours is followed by a space or a
// comment and then a comma, because JSON does not allow a trailing comma.
func TestRemoveLeavesNoComma(t *testing.T) {
	const ours = `"mailroom": {"command": "x", "args": ["mcp", "--as", "bob", "--vocabulary", "relay"]}`
	f := wired{"gemini", 0, "settings.json"}.file("bob")
	left, err := f.without([]byte(`{"mcpServers": {"other": {} /* mine */, /* ours */ `+ours+` /* last */}}`),
		&record{})
	want.Equal(t, "error", err, nil)
	want.Equal(t, "left", string(left), "{\"mcpServers\": {\"other\": {} /* mine */ /* ours */\n /* last */}}")
}
