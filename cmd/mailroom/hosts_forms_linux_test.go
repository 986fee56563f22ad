package main

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mailroom/orchestrator/orchestratortest/helper"
)

// codexForms are configurations of Codex, with the server other in each of TOML's forms.
var codexForms = map[string]string{
	"inline":         "mcp_servers = { other = { command = \"x\" } } # mine\nmodel = \"m\"\n",
	"inline, quoted": "\"mcp_servers\" = { 'other'.command = \"x\" }\n",
	"empty inline":   "mcp_servers = {}\n",
	"on lines":       "mcp_servers = {\n  other = { command = \"x\" }, # mine\n}\n",
	"dotted":         "mcp_servers.other.command = \"x\"\n[features]\nhooks = true\n",
	"under a head":   "[mcp_servers]\nother = { command = \"x\" }\n[features]\nhooks = true",
	"CRLF":           "# mine\r\n[mcp_servers.other]\r\ncommand = \"x\"\r\n\r\n[features]\r\nhooks = true\r\n",
	"a mark":         "\uFEFF[mcp_servers.\"other\"]\ncommand = \"x\"\n",
	"in a text":      "instructions = '''\n[mcp_servers.mailroom]\n'''\n[mcp_servers.other]\ncommand = \"x\"\n",
}

// TestCodexReadsWhatConnectWrites checks that Codex can read a configuration changed by connect, whatever its form
// is, also after Codex has written it, and finds its other servers unchanged when Mailroom is removed.
func TestCodexReadsWhatConnectWrites(t *testing.T) {
	t.Parallel()
	k := codexDesk(t)
	path := filepath.Join(k.folder, ".codex", "config.toml")
	own := strings.Join([]string{k.mailroom(), "mcp --as bob --vocabulary relay --db", k.db, "--host codex"}, " ")
	for about, text := range codexForms {
		before := k.codexServers(text)
		k.run("connect", "codex", "--user", "--as", "bob")
		connected := maps.Clone(before)
		connected["mailroom"] = own
		same := func(when string, want map[string]string) {
			t.Helper()
			if is := k.codexServers(""); !maps.Equal(is, want) {
				now, _ := os.ReadFile(path)
				t.Errorf("%s, %s: Codex has the servers %q; want %q\n%s", about, when, is, want, now)
			}
		}
		same("connected", connected)
		k.codexRuns("mcp", "add", "later", "--", "y")
		connected["later"] = "y"
		same("once Codex has written it", connected)
		k.run("connect", "codex", "--user", "--as", "bob")
		same("connected again", connected)
		k.run("connect", "codex", "--user", "--remove")
		delete(connected, "mailroom")
		same("removed", connected)
	}
}

// codexServers writes a configuration, if text is not "", and returns the command lines of the servers that Codex
// finds, by name.
func (k *desk) codexServers(text string) map[string]string {
	k.t.Helper()
	if text != "" {
		k.write(".codex/config.toml", text)
	}
	var list []struct {
		Name      string
		Transport struct {
			Command string
			Args    []string
		}
	}
	out := k.codexRuns("mcp", "list", "--json")
	if err := json.Unmarshal(out, &list); err != nil {
		k.t.Fatalf("%v: %s", err, out)
	}
	servers := map[string]string{}
	for _, s := range list {
		servers[s.Name] = strings.Join(append([]string{s.Transport.Command}, s.Transport.Args...), " ")
	}
	return servers
}

// codexRuns runs a command of Codex, and returns its output.
func (k *desk) codexRuns(args ...string) []byte {
	k.t.Helper()
	return k.hostRuns(nil, args...)
}

// hostRuns runs a command of the host in the folder, and returns its output.
func (k *desk) hostRuns(env []string, args ...string) []byte {
	k.t.Helper()
	c := exec.Command(k.program, args...)
	c.Dir = k.folder
	c.Env = append(k.environment(), env...)
	out, err := c.Output()
	if err != nil {
		text, _ := os.ReadFile(filepath.Join(k.folder, ".codex", "config.toml"))
		k.t.Fatalf("%q: %v\n%s\n%s", args, err, out, text)
	}
	return out
}

// TestOpenCodeReadsWhatConnectWrites checks that OpenCode can read a configuration changed by connect, does not
// replace words that look like its variables, and finds the rest unchanged when Mailroom is removed.
func TestOpenCodeReadsWhatConnectWrites(t *testing.T) {
	helper.Long(t)
	t.Parallel()
	k := bareOpenCodeDesk(t)
	env := []string{"OPENCODE_DISABLE_AUTOUPDATE=1", "OPENCODE_DISABLE_MODELS_FETCH=1"}
	servers := func() (found map[string]struct{ Command []string }) {
		var config struct {
			MCP map[string]struct{ Command []string }
		}
		out := k.hostRuns(env, "debug", "config")
		if err := json.Unmarshal(out, &config); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return config.MCP
	}
	db := filepath.Join(k.folder, "{env:HOME}", "${HOME}", "mailroom.db")
	if err := os.MkdirAll(filepath.Dir(db), 0o700); err != nil {
		t.Fatal(err)
	}
	for about, text := range map[string]string{
		"a comment at the end": "{\n  \"$schema\": \"https://opencode.ai/config.json\", // without it OpenCode adds it\n  \"mcp\": {\n    // mine\n    \"other\": {\"type\": \"local\", \"command\": [\"x\"]}, // mine\n  },\n}\n// end",
		"CRLF, a mark":         "\uFEFF{\r\n  \"$schema\": \"https://opencode.ai/config.json\",\r\n  \"mcp\": { \"other\": {\"type\": \"local\", \"command\": [\"x\"]} } /* mine */\r\n}",
	} {
		path := k.write("opencode.jsonc", text)
		k.run("--db", db, "connect", "opencode", "--as", "bob", "--folder", k.folder)
		want := []string{k.mailroom(), "mcp", "--as", "bob", "--vocabulary", "relay", "--db", db, "--host", "opencode"}
		if is := servers(); len(is) != 2 || !slices.Equal(is["mailroom"].Command, want) ||
			!slices.Equal(is["other"].Command, []string{"x"}) {
			t.Errorf("%s: OpenCode has the servers %q", about, is)
		}
		now, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		k.write("opencode.jsonc", strings.Replace(string(now), `"x"`, `"y"`, 1))
		k.run("--db", db, "connect", "opencode", "--folder", k.folder, "--remove")
		if is := servers(); len(is) != 1 || !slices.Equal(is["other"].Command, []string{"y"}) {
			t.Errorf("%s: OpenCode has the servers %q when it was removed", about, is)
		}
		if now, err = os.ReadFile(path); err != nil || string(now) != strings.Replace(text, `"x"`, `"y"`, 1) {
			t.Errorf("%s: %v\n%s\nwas\n%s", about, err, now, text)
		}
	}
}
