// Package agenthost describes agent hosts: programs, such as Claude Code, in whose sessions models work. Each host
// that `mailroom connect` can connect is described in a file of its own. The package also finds out in which host a
// process runs, because some hosts run hooks and start MCP servers that were configured for another host. Copilot
// CLI uses those of Claude Code.
package agenthost

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"mailroom/orchestrator/process"
)

// Hosts lists the hosts that Mailroom can connect, in display order.
var Hosts = []*Host{&claude, &codex, &gemini, &opencode, &kilo, &pi, &qwen, &copilot}

// others lists hosts that are recognized but cannot be connected.
var others = []*Host{
	{Name: "cursor", programs: []string{"cursor-agent"}, variable: "CURSOR_VERSION", clients: []string{"cursor"}},
	{Name: "droid", programs: []string{"droid"}, clients: []string{"factory-cli"}},
	{Name: "cline", programs: []string{"cline"}, clients: []string{"@cline/core"}},
	{Name: "kimi", programs: []string{"kimi"}, packages: []string{"@moonshot-ai/kimi-code"}},
	{Name: "continue", packages: []string{"@continuedev/cli"}, clients: []string{"continue-cli-client"}},
}

// known lists all hosts that are recognized.
var known = slices.Concat(Hosts, others)

// Find returns the connectable host with this name, or nil.
func Find(name string) *Host { return named(Hosts, name) }

func named(list []*Host, name string) *Host {
	if i := slices.IndexFunc(list, func(h *Host) bool { return h.Name == name }); i >= 0 {
		return list[i]
	}
	return nil
}

// Known reports whether a host with this name is recognized.
func Known(name string) bool {
	return named(known, name) != nil
}

// Meant returns the name of the host that a word refers to, such as Claude, claude-code or gemini_cli. It returns
// any other word in lower case.
func Meant(word string) string {
	word = strings.ToLower(word)
	plain := strings.NewReplacer("-", "", "_", "", " ", "").Replace(word)
	for _, h := range known {
		if name := h.Name; plain == name || plain == name+"code" || plain == name+"cli" {
			return name
		}
	}
	return word
}

// Connectable returns the names of the hosts that `mailroom connect` can connect.
func Connectable() (names []string) {
	for _, h := range Hosts {
		names = append(names, h.Name)
	}
	return names
}

// Seen is a recognized host. The zero value is no host.
type Seen struct {
	Host string // name of the host, such as claude
	By   string // the evidence, in words
}

// Around returns the host in which this process runs: the nearest known host among its ancestors. If there is none,
// it returns the host whose variable is set in the environment. The environment comes second because a host
// inherits the variables of another host that started it.
func Around() (seen Seen) {
	process.Nearest(func(words []string) bool {
		i := slices.IndexFunc(known, func(h *Host) bool { return h.runs(words) })
		if i >= 0 {
			seen = Seen{known[i].Name, "this command runs in a process of " + known[i].Name}
		}
		return i >= 0
	})
	if seen.Host == "" {
		seen = byEnvironment(os.Getenv)
	}
	return seen
}

// Process returns the nearest ancestor of this process that runs the host. It returns the zero value if there is
// none, or if this system does not show process ancestors.
func (h *Host) Process() process.ID { return process.Nearest(h.runs) }

// byEnvironment returns the host whose variable is set.
func byEnvironment(getenv func(string) string) Seen {
	for _, h := range known {
		if h.variable != "" && getenv(h.variable) != "" {
			return Seen{h.Name, h.variable + " is set"}
		}
	}
	return Seen{}
}

// Client returns the host whose MCP client has this name.
func Client(name string) Seen {
	for _, h := range known {
		for _, begin := range h.clients {
			if rest, found := strings.CutPrefix(strings.ToLower(name), begin); found && (rest == "" || rest[0] == '-') {
				return Seen{h.Name, "the client's name is " + begin}
			}
		}
	}
	return Seen{}
}

// AutoElsewhere explains why a database on another machine gives no session its own agent.
const AutoElsewhere = "the agent `auto` requires a database on this machine: Mailroom distinguishes sessions by their processes"

// Other reports whether a host was recognized that is not the one named.
func (s Seen) Other(host string) bool { return s.Host != "" && s.Host != host }

// Own returns advice on how to give the host its own agent beside another host that uses the database.
func (s Seen) Own(database string) string {
	if Find(s.Host) != nil {
		return "To give " + s.Host + " its own agent, run `mailroom connect " + s.Host +
			" --as NAME` in the project's folder, or run " + s.Host + " in another folder"
	}
	return "To give " + s.Host + " its own agent, add the server `mailroom mcp --as NAME --db " + database +
		"` to the host's configuration under a name " +
		"other than mailroom, or run " + s.Host + " in another folder"
}

// runs reports whether a command line belongs to the host.
func (h *Host) runs(words []string) bool {
	if len(words) > 1 && slices.Contains(h.parts, filepath.Base(words[1])) {
		return false
	}
	return process.Runs(words, func(file string) bool {
		return slices.ContainsFunc(h.packages,
			func(name string) bool { return strings.Contains(file, "/node_modules/"+name+"/") }) ||
			slices.Contains(h.programs, file[strings.LastIndexByte(file, '/')+1:])
	})
}

// Shares reports whether several sessions of the host may run in one process.
func (h *Host) Shares() bool { return h.Unproved || h.Shared }

// Sleeps reports whether an idle session is never woken, unless its user asks for that.
func (h *Host) Sleeps() bool {
	return h.EndsByItself == nil && h.Inbox == "" && !h.Streams || h.WakesIfAsked()
}

// HasNext reports whether a program has an extended version for the host's next generation, installed if the user
// asks for it.
func (h *Host) HasNext() bool {
	return slices.ContainsFunc(h.Files, func(f File) bool { return f.Next != "" })
}

// WakesIfAsked reports whether a program that wakes idle sessions is installed if the user asks for it.
func (h *Host) WakesIfAsked() bool {
	return slices.ContainsFunc(h.Files, func(f File) bool { return f.Idle })
}
