package connect

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator/orchestratortest/want"
)

// TestCallTime checks that the time limit of a host's tool calls is that in the configuration of the server that the
// host started, and only if the configuration has that server.
func TestCallTime(t *testing.T) {
	d := newDesk(t)
	for _, name := range []string{"CODEX_HOME", "CLAUDE_CONFIG_DIR", "GEMINI_CLI_HOME", "XDG_CONFIG_HOME",
		"MCP_TOOL_TIMEOUT"} {
		t.Setenv(name, "")
	}
	below := filepath.Join(d.project, "src")
	if err := os.Mkdir(below, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(below)
	words := []string{"mcp", "--as", "bob", "--vocabulary", "relay", "--db", d.env.Ledger.Path()}
	const limit, user = 2 * time.Minute, 30 * time.Second
	for _, c := range []struct {
		host, file           string
		written, changed     string // the time limit as connect writes it, and a limit of 30 s
		otherwise, connected time.Duration
	}{
		{"claude", ".mcp.json", `"alwaysLoad"`, `"timeout": 30000, "alwaysLoad"`, 2 * time.Minute, 2 * time.Minute},
		{"codex", ".codex/config.toml", "tool_timeout_sec = 120", "tool_timeout_sec = 30.0", time.Minute, limit},
		{"gemini", ".gemini/settings.json", `"timeout": 120000`, `"timeout": 30000`, 2 * time.Minute, limit},
		{"opencode", "opencode.json", `"timeout": 120000`, `"timeout": 30000`, time.Minute, limit},
		{"kilo", ".kilo/kilo.json", `"timeout": 120000`, `"timeout": 30000`, time.Minute, limit},
	} {
		words := append(slices.Clone(words), "--host", c.host)
		want.Equal(t, c.host+", not connected", CallTime(c.host, words), c.otherwise)
		if _, err := d.try("bob", `{"host":"`+c.host+`"}`); err != nil {
			t.Fatal(err)
		}
		want.Equal(t, c.host+", connected", CallTime(c.host, words), c.connected)
		path := filepath.Join(d.project, c.file)
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		becomes := func(what, old, new string, is time.Duration) {
			t.Helper()
			text := strings.Replace(string(before), old, new, 1)
			if text == string(before) {
				t.Fatalf("%s has no %s", path, old)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			want.Equal(t, c.host+", "+what, CallTime(c.host, words), is)
		}
		becomes("another time", c.written, c.changed, user)
		becomes("for another agent", `"bob"`, `"eve"`, c.otherwise)
		becomes("a file that cannot be read", string(before), "{", c.otherwise)
		if c.host != "claude" {
			becomes("the time is gone", c.written,
				strings.NewReplacer("tool_timeout_sec", "#", `"timeout"`, `"other"`).Replace(c.written), c.otherwise)
		}
		becomes("an hour", c.written, strings.NewReplacer("30000", "3600000", "30.0", "3600").Replace(c.changed),
			map[bool]time.Duration{true: 2 * time.Minute, false: time.Hour}[c.host == "claude"])
	}
	t.Setenv("MCP_TOOL_TIMEOUT", "9000")
	want.Equal(t, "claude, in its environment", CallTime("claude", []string{"mcp"}), 9*time.Second)
	want.Equal(t, "a host that is not known", CallTime("", words), time.Duration(0))
}

// TestCallTimeOfTheUser checks that the user's own configuration counts beside a project's, and that the shorter time
// of both applies.
func TestCallTimeOfTheUser(t *testing.T) {
	d := newDesk(t)
	home := filepath.Join(d.home, "codex")
	t.Setenv("CODEX_HOME", home)
	t.Chdir(d.project)
	for path, seconds := range map[string]string{filepath.Join(home, "config.toml"): "200",
		filepath.Join(d.project, ".codex", "config.toml"): "300"} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		text := `mcp_servers = { post = { command = "/x/mailroom", args = ["mcp", "--as", "bob"], tool_timeout_sec = ` +
			seconds + ` } }`
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want.Equal(t, "both", CallTime("codex", []string{"mcp", "--as", "bob"}), 200*time.Second)
	if err := os.Remove(filepath.Join(home, "config.toml")); err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "the project's", CallTime("codex", []string{"mcp", "--as", "bob"}), 300*time.Second)
	want.Equal(t, "another server", CallTime("codex", []string{"mcp", "--as", "eve"}), time.Minute)
}
