// Package agenthost finds out in which agent host a process runs, such as Claude Code. Some hosts run the hooks and
// start the servers of tools that were configured for another: Copilot CLI takes those of Claude Code. Source:
// hosts2.md, 0.A.
package agenthost

import (
	"os"
	"slices"
	"strings"

	"mailroom/orchestrator/process"
)

// host is an agent host, and how it is recognized.
type host struct {
	name     string
	programs []string // names under which it runs, which nothing else has
	packages []string // of npm, in which the script lies that it runs
	variable string   // in the environment of what it starts, and of nothing else; "" is none
	clients  []string // how the names begin that its clients of the Model Context Protocol give themselves
	connects bool     // `mailroom connect` can connect it
}

// known are the hosts that Mailroom knows: those that it connects, and others.
var known = []host{
	{name: "claude", programs: []string{"claude"},
		packages: []string{"@anthropic-ai/claude-code", "@anthropic-ai/claude-agent-sdk"},
		clients:  []string{"claude-code"}, connects: true},
	{name: "codex", programs: []string{"codex"}, packages: []string{"@openai/codex"},
		clients: []string{"codex-mcp-client"}, connects: true},
	{name: "gemini", programs: []string{"gemini", "gemini.js"}, packages: []string{"@google/gemini-cli"},
		clients: []string{"gemini-cli-mcp-client"}, connects: true},
	{name: "opencode", programs: []string{"opencode"}, clients: []string{"opencode"}, connects: true},

	{name: "copilot", programs: []string{"copilot"}, packages: []string{"@github/copilot"}, variable: "COPILOT_CLI",
		clients: []string{"copilot-cli", "github-copilot"}},
	{name: "qwen", programs: []string{"qwen"}, packages: []string{"@qwen-code/qwen-code"},
		variable: "QWEN_CODE_SESSION_ID", clients: []string{"qwen-cli-mcp-client"}},
	{name: "kilo", programs: []string{"kilo", "kilocode"}, clients: []string{"kilo"}},
	{name: "cursor", programs: []string{"cursor-agent"}, variable: "CURSOR_VERSION", clients: []string{"cursor"}},
	{name: "droid", programs: []string{"droid"}, clients: []string{"factory-cli"}},
	{name: "cline", programs: []string{"cline"}, clients: []string{"@cline/core"}},
	{name: "kimi", programs: []string{"kimi"}, packages: []string{"@moonshot-ai/kimi-code"}},
	{name: "continue", packages: []string{"@continuedev/cli"}, clients: []string{"continue-cli-client"}},
	{name: "pi", packages: []string{"@earendil-works/pi-coding-agent"}, clients: []string{"pi"}},
}

// Known reports whether there is a host of this name.
func Known(name string) bool {
	return find(name) != nil
}

// Connectable lists the hosts that `mailroom connect` can connect, by the names of their programs.
func Connectable() (names []string) {
	for i := range known {
		if known[i].connects {
			names = append(names, known[i].name)
		}
	}
	return names
}

// find returns the host of a name; nil if there is none.
func find(name string) *host {
	if i := slices.IndexFunc(known, func(h host) bool { return h.name == name }); i >= 0 {
		return &known[i]
	}
	return nil
}

// Seen is a host that was recognized. The zero value is none.
type Seen struct {
	Host string // its name, such as claude
	By   string // by what, for people
}

// Around returns the host in which this process runs: the nearest that is known among its ancestors. Where there is
// none it is the one whose variable stands in the environment, since a host inherits those of another that has started
// it.
func Around() (seen Seen) {
	process.Nearest(func(words []string) bool {
		i := slices.IndexFunc(known, func(h host) bool { return h.runs(words) })
		if i >= 0 {
			seen = Seen{known[i].name, "it runs in a process of " + known[i].name}
		}
		return i >= 0
	})
	if seen.Host == "" {
		seen = byEnvironment(os.Getenv)
	}
	return seen
}

// Process returns the nearest ancestor of this process that runs a host. The zero value if there is none, or this
// system does not tell.
func Process(name string) process.ID {
	h := find(name)
	if h == nil {
		return process.ID{}
	}
	return process.Nearest(h.runs)
}

// byEnvironment returns the host whose variable is set.
func byEnvironment(getenv func(string) string) Seen {
	for _, h := range known {
		if h.variable != "" && getenv(h.variable) != "" {
			return Seen{h.name, h.variable + " is set"}
		}
	}
	return Seen{}
}

// Client returns the host whose client of the Model Context Protocol has this name.
func Client(name string) Seen {
	for _, h := range known {
		for _, begin := range h.clients {
			if rest, found := strings.CutPrefix(strings.ToLower(name), begin); found && (rest == "" || rest[0] == '-') {
				return Seen{h.name, "its client calls itself " + begin}
			}
		}
	}
	return Seen{}
}

// Other reports whether a host was recognized that is another than the one named.
func (s Seen) Other(host string) bool { return s.Host != "" && s.Host != host }

// Own says how the host can have an agent of its own beside another that uses the database.
func (s Seen) Own(database string) string {
	if h := find(s.Host); h != nil && h.connects {
		return "To give " + s.Host + " an agent of its own type `mailroom connect " + s.Host +
			" --as NAME` in the project's folder, or let it work in another folder"
	}
	return "To give " + s.Host + " an agent of its own put the server `mailroom mcp --as NAME --db " + database +
		"` into its own configuration, under another " +
		"name than mailroom, or let it work in another folder"
}

// runs reports whether a command line is the host's.
func (h *host) runs(words []string) bool {
	return process.Runs(words, func(file string) bool {
		return slices.ContainsFunc(h.packages,
			func(name string) bool { return strings.Contains(file, "/node_modules/"+name+"/") }) ||
			slices.Contains(h.programs, file[strings.LastIndexByte(file, '/')+1:])
	})
}
