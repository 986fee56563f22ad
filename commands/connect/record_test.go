package connect

import (
	"encoding/json"
	"mailroom/orchestrator/agenthost"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"

	"mailroom/orchestrator/orchestratortest/want"
)

// TestProjectBehindALink checks that a project reached through a link keeps its records, whichever path names it.
func TestProjectBehindALink(t *testing.T) {
	d := newDesk(t)
	d.write(".claude/settings.local.json", "{\"model\":\"x\"}\n")
	before := tree(t, d.project)
	real, link := d.project, filepath.Join(filepath.Dir(d.project), "link")
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	d.project = link
	d.connect("alice", `{"host":"claude"}`)
	want.Equal(t, "agent", d.connect("", `{"host":"claude"}`).Agent, "alice")
	d.project = real
	want.Equal(t, "agent", d.connect("", `{"host":"claude"}`).Agent, "alice")
	d.project = link
	d.connect("", `{"host":"claude","remove":true}`)
	d.project = real
	d.same("after --remove", before)
	want.Equal(t, "records", len(bookOf(d.env).all()), 0)
}

// TestLostRecords checks that connecting again writes lost records again, and that --remove then removes what connect
// wrote.
func TestLostRecords(t *testing.T) {
	for _, h := range agenthost.Hosts {
		d := newDesk(t)
		d.connect("alice", `{"host":"`+h.Name+`"}`)
		if err := os.RemoveAll(string(bookOf(d.env))); err != nil {
			t.Fatal(err)
		}
		d.connect("alice", `{"host":"`+h.Name+`"}`)
		for _, stands := range d.connect("", `{}`).Hosts {
			if stands.Host == h.Name {
				want.Equal(t, h.Name, stands.Agent, "alice")
				if strings.Contains(stands.Says, "somebody else") {
					t.Errorf("%s: %s", h.Name, stands.Says)
				}
			}
		}
		d.connect("", `{"host":"`+h.Name+`","remove":true}`)
		for path, text := range tree(t, d.project) {
			if text != "folder" {
				t.Errorf("%s: %s is left:\n%s", h.Name, path, text)
			}
		}
	}
}

// TestHostileFiles checks that content from a repository is not mistaken for ours, and does not terminate the
// program.
func TestHostileFiles(t *testing.T) {
	deep := strings.Repeat("[", 1_000_000)
	for _, c := range []struct{ file, host, text, says string }{
		{".mcp.json", "claude",
			`{"mcpServers":{},"mcpServers":{"mailroom":{"command":"/bin/sh","args":["-c","evil"]}}}`, "occurs twice"},
		{".claude/settings.local.json", "claude", `{"hooks":{},"hooks":{}}`, "occurs twice"},
		{".mcp.json", "claude", deep, "must be nested"},
		{".gemini/settings.json", "gemini", `{"a":` + deep, "must be nested"},
		{"opencode.json", "opencode", deep, "must be nested"},
		{".claude", "claude", "", "not a directory"},
	} {
		d := newDesk(t)
		d.write(c.file, c.text)
		_, err := d.try("alice", `{"host":"`+c.host+`"}`)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s of %.60s: %v; want it to say %q", c.file, c.text, err, c.says)
		}
		d.connect("", `{}`)
	}
	// Brackets in texts and comments do not count.
	d := newDesk(t)
	d.write(".gemini/settings.json", `{"a":"`+strings.Repeat("[", 2000)+`\"{" // `+strings.Repeat("{", 2000)+"\n}")
	d.connect("alice", `{"host":"gemini"}`)
}

// TestRemoveLeavesTheFilesOfOthers checks that files that connect did not write are kept, even if they are almost
// empty.
func TestRemoveLeavesTheFilesOfOthers(t *testing.T) {
	d := newDesk(t)
	for name, text := range map[string]string{
		".mcp.json": "{}\n", ".codex/config.toml": "\n", ".codex/hooks.json": "{}", ".gemini/settings.json": "{}",
		"opencode.json": "{}",
	} {
		d.write(name, text)
	}
	before := tree(t, d.project)
	for _, h := range agenthost.Hosts {
		d.connect("", `{"host":"`+h.Name+`","remove":true}`)
	}
	d.same("after --remove", before)
}

// TestSecondFileOfOpenCode checks that --remove finds the file that connect wrote although OpenCode reads another
// too.
func TestSecondFileOfOpenCode(t *testing.T) {
	d := newDesk(t)
	d.connect("bob", `{"host":"opencode"}`)
	second := d.write("opencode.jsonc", "{}\n")
	d.connect("", `{"host":"opencode","remove":true}`)
	left := tree(t, d.project)
	want.Equal(t, "files and folders", len(left), 2) // the project's folder and the second file
	want.Equal(t, "the second file", left[second], "{}\n")
}

// TestHookInAGroupOfOthers checks that our hook is not added to a group that others narrowed with a matcher.
func TestHookInAGroupOfOthers(t *testing.T) {
	d := newDesk(t)
	path := d.write(".gemini/settings.json",
		`{"hooks":{"AfterTool":[{"matcher":"never","hooks":[{"type":"command","command":"true"},
		{"type":"command","command":"x hook AfterTool --host gemini --as eve"}]}]}}`)
	d.connect("alice", `{"host":"gemini"}`)
	var got struct {
		Hooks struct {
			AfterTool []struct {
				Matcher string
				Hooks   []struct{ Command string }
			}
		}
	}
	if err := json.Unmarshal([]byte(tree(t, d.project)[path]), &got); err != nil {
		t.Fatal(err)
	}
	groups := got.Hooks.AfterTool
	if len(groups) != 2 || len(groups[0].Hooks) != 1 || groups[1].Matcher != "" ||
		!strings.Contains(groups[1].Hooks[0].Command, "--as alice") {
		t.Errorf("%+v", groups)
	}
}

// TestHooksOfOthers checks that a hook that only mentions ours, in a comment or in a longer command line, belongs to
// somebody else and is kept.
func TestHooksOfOthers(t *testing.T) {
	d := newDesk(t)
	const foreign = `{"env": {"A": "1"}, "permissions": {"allow": ["mcp__mailroom", "Bash(ls /src/mailroom)"]}, "hooks": {"PostToolUse": [
	// off for now: "/usr/bin/mailroom hook PostToolUse --host claude --as alice"
	{"hooks": [{"type": "command", "command": "mine.sh"}]}], "Stop": [{"hooks": [
	// {"type": "command", "command": "/usr/bin/mailroom hook Stop --host claude --as alice"},
	{"type": "command", "command": "lint.sh; /usr/bin/mailroom hook Stop --host claude --as alice"}]}]}}`
	before := string(standardized([]byte(foreign)))
	d.write(".claude/settings.local.json", before)
	d.connect("xx", `{"host":"claude"}`)
	path := filepath.Join(d.project, ".claude", "settings.local.json")
	text := tree(t, d.project)[path]
	for _, part := range []string{"mine.sh", "lint.sh; ", "hook Stop --host claude --as xx"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is missing:\n%s", part, text)
		}
	}
	d.connect("", `{"host":"claude","remove":true}`)
	want.Equal(t, "put back", tree(t, d.project)[path], before)
	d.connect("xx", `{"host":"claude"}`)
	d.write(".claude/settings.local.json", strings.Replace(tree(t, d.project)[path], `"A": "1"`, `"A": "2"`, 1))
	d.connect("", `{"host":"claude","remove":true}`)
	text = tree(t, d.project)[path]
	if !strings.Contains(text, "mine.sh") || !strings.Contains(text, "lint.sh; ") || strings.Contains(text, "--as xx") {
		t.Error(text)
	}
}

// TestTableInAText checks that the content of a text in Codex's configuration is not taken for a table.
func TestTableInAText(t *testing.T) {
	d := newDesk(t)
	d.connect("bob", `{"host":"codex"}`)
	path := filepath.Join(d.project, ".codex", "config.toml")
	d.write(".codex/config.toml", "note = \"\"\"\n"+tree(t, d.project)[path]+"\"\"\"\n")
	d.connect("bob", `{"host":"codex"}`)
	text := tree(t, d.project)[path]
	if codexServer(decodeTOML([]byte(text))) == nil {
		t.Errorf("it has no server:\n%s", text)
	}
	d.connect("carol", `{"host":"codex"}`)
	text = tree(t, d.project)[path] + "\n[hooks.state]\n"
	d.write(".codex/config.toml", text)
	d.connect("", `{"host":"codex","remove":true}`)
	text = tree(t, d.project)[path]
	var rest struct{ Note string }
	if err := toml.Unmarshal([]byte(text), &rest); err != nil || !strings.Contains(rest.Note, "mcp_servers.mailroom") ||
		codexServer(decodeTOML([]byte(text))) != nil {
		t.Errorf("%v:\n%s", err, text)
	}
}

// TestDatabaseThatIsGone checks that a folder whose database was deleted is reported, whichever database is checked.
func TestDatabaseThatIsGone(t *testing.T) {
	d := newDesk(t)
	d.connect("alice", `{"host":"claude"}`)
	gone := d.env.Ledger.Path()
	d.env.Engine = d.open(filepath.Join(d.home, "mailroom.db"))
	if err := os.Remove(gone); err != nil {
		t.Fatal(err)
	}
	t.Chdir(d.project)
	d.looks(false, "problem", noDatabase+gone)
	want.Equal(t, "standing", d.connect("", `{}`).of("claude").Says,
		noDatabase+gone+". To connect the host to the database "+d.env.Ledger.Path()+", run `mailroom connect claude`")
}
