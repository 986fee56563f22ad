package connect

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agenthost"
)

// CallTime returns how long a host waits for the answer to a tool call of the server that it started with these words
// after the program's name. It returns 0 for an unknown host. A configuration applies if it starts that server; the
// project's configuration in the working folder or above it and the user's configuration are considered. If several
// apply, the shortest time counts.
func CallTime(host string, words []string) time.Duration {
	h := agenthost.Find(host)
	if h == nil {
		return 0
	}
	c := h.Calls
	if ms, err := strconv.Atoi(os.Getenv(c.Variable)); c.Variable != "" && err == nil && ms > 0 {
		c.Unsaid = min(c.Unsaid, max(time.Duration(ms)*time.Millisecond, time.Second))
	}
	var all []time.Duration
	for _, path := range toolFiles(h) {
		all = append(all, timesIn(path, h, c, words)...)
	}
	if len(all) == 0 {
		return c.Unsaid
	}
	shortest := slices.Min(all)
	if h.Calls.Most {
		shortest = min(shortest, h.Calls.Unsaid)
	}
	return shortest
}

// IsConnected reports whether a host's configuration has Mailroom's tools in the working folder or above it or,
// unless project is true, for all folders of the user.
func IsConnected(host string, project bool) bool {
	h := agenthost.Find(host)
	if h == nil {
		return false
	}
	paths := toolFiles(h)
	if project {
		paths = slices.DeleteFunc(paths[1:], func(path string) bool { return path == paths[0] })
	}
	f := fileOf(h, &h.Files[0], &agenthost.Place{}, &connection{})
	return slices.ContainsFunc(paths, func(path string) bool {
		text, _, err := read(path)
		return err == nil && f.tools(text) != nil
	})
}

// toolFiles returns the files in which a host may have found the server, the user's file first.
func toolFiles(h *agenthost.Host) (paths []string) {
	home, _ := os.UserHomeDir() // without a home folder, there is no file of the user
	add := func(p *agenthost.Place) { paths = append(paths, filesOf(h, p, &connection{})[0].path) }
	add(&agenthost.Place{Home: home, User: true})
	folder, err := os.Getwd()
	for err == nil {
		add(&agenthost.Place{Folder: folder, Home: home})
		above := filepath.Dir(folder)
		if above == folder {
			break
		}
		folder = above
	}
	return paths
}

// timesIn returns the times that a file sets for the servers that it starts with these words.
func timesIn(path string, h *agenthost.Host, c agenthost.CallTime, words []string) (times []time.Duration) {
	text, _, err := read(path)
	if err != nil {
		return nil
	}
	servers, _ := decoderOf(path)(text)[h.Files[0].Servers].(map[string]any)
	for _, entry := range servers {
		server, _ := entry.(map[string]any)
		if slices.Equal(wordsOf(server), words) {
			times = append(times, cmp.Or(timeOf(server, c), c.Unsaid))
		}
	}
	return times
}

// wordsOf returns the words after the program's name in the command of a server.
func wordsOf(server map[string]any) (words []string) {
	list, ok := server["args"].([]any)
	if command, all := server["command"].([]any); all && len(command) > 0 { // the form of OpenCode
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

// timeOf returns the time in a server's entry, or 0 if there is none.
func timeOf(server map[string]any, c agenthost.CallTime) time.Duration {
	n := 0.0
	switch limit := server[c.Key].(type) {
	case float64:
		n = limit
	case int64:
		n = float64(limit)
	}
	return time.Duration(max(0, min(n, float64(orchestrator.Day/c.Unit))*float64(c.Unit)))
}
