package agenthost

import (
	"strings"
	"testing"
	"time"
)

// A host is recognized by its program, or by the package of a script. A program that only has the same name is not
// recognized.
func TestRecognizedByCommandLine(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		want  string
		words []string
	}{
		{"claude", []string{"/usr/bin/claude", "-p"}},
		{"claude", []string{"node", "/app/node_modules/@anthropic-ai/claude-agent-sdk/cli.js", "--print"}},
		{"codex", []string{"/opt/codex", "exec"}},
		{"gemini", []string{"node", "--max-old-space-size=12052", "/usr/bin/gemini"}},
		{"copilot", []string{"/x/node_modules/@github/copilot-linux-x64/copilot", "-p", "hello"}},
		{"copilot", []string{"node", "/x/node_modules/@github/copilot/npm-loader.js"}},
		{"qwen", []string{"/usr/bin/node", "/x/node_modules/@qwen-code/qwen-code/cli.js"}},
		{"qwen", []string{"node", "/usr/bin/qwen"}},
		{"kilo", []string{"/x/bin/kilo", "serve"}},
		{"", []string{"bash", "-c", "copilot"}},
		{"", []string{"node", "/x/copilot/index.js"}},
		{"", []string{"node", "/x/node_modules/other/cli.js", "claude"}},
		{"", []string{"vi", "copilot.md"}},
		{"", nil},
	} {
		got := ""
		for _, h := range known {
			if h.runs(test.words) {
				got = h.Name
			}
		}
		if got != test.want {
			t.Errorf("%q is %q; want %q", test.words, got, test.want)
		}
	}
}

// TestDescriptions checks that hooks can answer every event that connect configures for a host, and that the first
// file has the tools.
func TestDescriptions(t *testing.T) {
	t.Parallel()
	for _, h := range Hosts {
		place := &Place{Folder: "/shop", Home: "/home/bob"}
		hooks := 0
		for _, f := range h.Files {
			for _, e := range f.Hooks {
				if hooks++; (e.Kind == "") != (e.Runs != "") || h.Kind(e.Event) == "" {
					t.Errorf("%s: the event %s is of no kind", h.Name, e.Event)
				}
			}
			user := *place
			user.User = true
			if f.Paths(place)[0] == f.Paths(&user)[0] || !strings.HasPrefix(f.Paths(place)[0], "/shop/") {
				t.Errorf("%s: a project's file is %s", h.Name, f.Paths(place)[0])
			}
		}
		if (hooks > 0) == h.Streams {
			t.Errorf("%s has %d hooks", h.Name, hooks)
		}
		if h.Files[0].Server == nil || h.Asks == "" || h.Calls.Unsaid == 0 {
			t.Errorf("%s: the description is not whole", h.Name)
		}
	}
}

// A variable belongs to the host that sets it for its hooks and servers.
func TestRecognizedByEnvironment(t *testing.T) {
	t.Parallel()
	for variable, want := range map[string]string{"COPILOT_CLI": "copilot", "CURSOR_VERSION": "cursor",
		"QWEN_CODE_SESSION_ID": "qwen", "HOME": ""} {
		got := byEnvironment(func(name string) string {
			if name == variable {
				return "1"
			}
			return ""
		})
		if got.Host != want {
			t.Errorf("with %s it is %q; want %q", variable, got.Host, want)
		}
	}
}

// The names by which the hosts' clients identify themselves.
func TestRecognizedByClient(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"claude-code": "claude", "codex-mcp-client": "codex", "gemini-cli-mcp-client-mailroom": "gemini",
		"opencode": "opencode", "copilot-cli": "copilot",
		"github-copilot-developer": "copilot", "qwen-cli-mcp-client-mailroom": "qwen", "kilo": "kilo",
		"cursor-vscode": "cursor", "factory-cli": "droid",
		"@cline/core": "cline", "continue-cli-client": "continue", "pi": "pi", "pipe": "", "mcp": "", "claude-ai": "",
		"": "",
	} {
		if got := Client(name); got.Host != want {
			t.Errorf("%s is %q; want %q", name, got.Host, want)
		}
	}
}

// Recorded refusals are returned by database for a week, newest first.
func TestRefusals(t *testing.T) {
	t.Parallel()
	state, now := t.TempDir(), time.Now()
	keep := func(r Refusal) {
		t.Helper()
		if err := r.Keep(state); err != nil {
			t.Fatal(err)
		}
	}
	first := Refusal{Host: "claude", Seen: Seen{"copilot", "it is"}, What: "hooks", Agent: "bob", Database: "/a.db",
		Folder: "/shop", At: now}
	tools := first
	tools.What, tools.At = "tools", now.Add(time.Second)
	other := first
	other.Database = "/b.db"
	again := first
	again.At = now.Add(2 * time.Second) // too soon for another write
	for _, r := range []Refusal{first, tools, other, again} {
		keep(r)
	}
	list := Refusals(state, "/a.db", now)
	if len(list) != 2 || list[0].What != "tools" || !list[1].At.Equal(first.At) || list[1].Seen != first.Seen {
		t.Errorf("kept is %+v", list)
	}
	again.At = now.Add(time.Hour)
	keep(again)
	if list := Refusals(state, "/a.db", now); len(list) != 2 || list[0].What != "hooks" || !list[0].At.Equal(again.At) {
		t.Errorf("an hour later %+v", list)
	}
	if list := Refusals(state, "/a.db", now.Add(8*24*time.Hour)); len(list) != 0 {
		t.Errorf("after more than a week %+v", list)
	}
	if err := first.Keep(""); err != nil || Refusals("", "/a.db", now) != nil {
		t.Errorf("without a state folder: %v", err)
	}
}
