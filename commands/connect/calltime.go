package connect

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/pelletier/go-toml/v2"

	"mailroom/orchestrator"
)

// callTime is how long a host waits for the answer to the call of a tool, and where its configuration says so.
type callTime struct {
	servers, limit string // keys: of all servers, and of the time in one of them
	unit           time.Duration
	unsaid         time.Duration // where the configuration does not say; the shortest that a version of the host has
}

// callTimes are those of the hosts by name. After two minutes Claude Code's model goes on without the answer, whatever
// the configuration says. Gemini waits for ten unless the configuration says less, and that which connect makes for an
// extension says two.
var callTimes = map[string]callTime{
	"claude":   {"mcpServers", "timeout", time.Millisecond, 2 * time.Minute},
	"codex":    {"mcp_servers", "tool_timeout_sec", time.Second, time.Minute},
	"gemini":   {"mcpServers", "timeout", time.Millisecond, 2 * time.Minute},
	"opencode": {"mcp", "timeout", time.Millisecond, time.Minute},
}

// CallTime returns how long a host waits for the answer to a call of a tool of the server that it has started with
// these words after the program's name; 0 for a host that is not known. What a configuration says counts if it starts
// that server: a project's, in the working folder or above, or the user's. If several do, the shortest time counts.
func CallTime(host string, words []string) time.Duration {
	h, c := find(host), callTimes[host]
	if h == nil {
		return 0
	}
	if ms, err := strconv.Atoi(os.Getenv("MCP_TOOL_TIMEOUT")); host == "claude" && err == nil && ms > 0 {
		c.unsaid = min(c.unsaid, max(time.Duration(ms)*time.Millisecond, time.Second))
	}
	var all []time.Duration
	for _, path := range toolFiles(h) {
		all = append(all, c.in(path, words)...)
	}
	if len(all) == 0 {
		return c.unsaid
	}
	shortest := slices.Min(all)
	if host == "claude" {
		shortest = min(shortest, callTimes[host].unsaid)
	}
	return shortest
}

// find returns the host of a name; nil if there is none.
func find(name string) *host {
	if i := slices.IndexFunc(known, func(h *host) bool { return h.name == name }); i >= 0 {
		return known[i]
	}
	return nil
}

// toolFiles are the files in which a host may have found the server.
func toolFiles(h *host) (paths []string) {
	home, _ := os.UserHomeDir() // without one there is no file of the user's
	add := func(p *place) { paths = append(paths, h.files(p, &connection{})[0].path) }
	add(&place{home: home, user: true})
	folder, err := os.Getwd()
	for err == nil {
		add(&place{folder: folder, home: home})
		above := filepath.Dir(folder)
		if above == folder {
			break
		}
		folder = above
	}
	return paths
}

// in returns the times in a file of all servers that are started with these words.
func (c callTime) in(path string, words []string) (times []time.Duration) {
	text, _, err := read(path)
	if err != nil {
		return nil
	}
	var all map[string]any
	if filepath.Ext(path) == ".toml" {
		err = toml.Unmarshal(text, &all)
	} else {
		err = json.Unmarshal(standardized(text), &all)
	}
	if err != nil {
		return nil
	}
	servers, _ := all[c.servers].(map[string]any)
	for _, entry := range servers {
		server, _ := entry.(map[string]any)
		if slices.Equal(wordsOf(server), words) {
			times = append(times, cmp.Or(c.of(server), c.unsaid))
		}
	}
	return times
}

// wordsOf returns what follows the program's name in the command of a server.
func wordsOf(server map[string]any) (words []string) {
	list, ok := server["args"].([]any)
	if command, all := server["command"].([]any); all && len(command) > 0 { // OpenCode's form
		list, ok = command[1:], true
	}
	if !ok {
		return nil
	}
	words = []string{}
	for _, word := range list {
		text, _ := word.(string)
		words = append(words, text)
	}
	return words
}

// of returns the time that stands in a server's entry; 0 if there is none.
func (c callTime) of(server map[string]any) time.Duration {
	n := 0.0
	switch limit := server[c.limit].(type) {
	case float64:
		n = limit
	case int64:
		n = float64(limit)
	}
	return time.Duration(max(0, min(n, float64(orchestrator.Day/c.unit))*float64(c.unit)))
}
