package agenthost

import (
	"cmp"
	_ "embed"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// opencode describes OpenCode, which runs plugins instead of hooks.
var opencode = Host{
	Name:     "opencode",
	programs: []string{"opencode", "opencode2"},
	clients:  []string{"opencode"},

	Connection: Connection{
		Asks: "For any plugin, OpenCode installs a package from the npm registry, once in each folder. Without a network connection, OpenCode waits for the installation.",
		Files: []File{
			{Paths: openCodePaths("", "opencode", "opencode.json", "opencode.jsonc"), Format: LaxJSON, Servers: "mcp",
				Server: openCodeServer, Rule: &Rule{Object: "permission", Name: "mailroom_*", Ask: "ask"}},
			{Paths: openCodePaths(".opencode", "opencode", "plugins/mailroom.js"), Script: openCodePlugin,
				Next: openCodesPlugin},
		},
		Calls: CallTime{Key: "timeout", Unit: time.Millisecond, Unsaid: time.Minute},
	},
	Sessions: Sessions{Shared: true, Streams: true},
}

//go:embed opencode.js
var openCodePlugin string

//go:embed opencode2.js
var openCode2Part string

// openCodesPlugin is the plugin with an additional part for OpenCode 2.
var openCodesPlugin = strings.Replace(openCodePlugin, "export const Mailroom", "const Mailroom", 1) + openCode2Part

// openCodePaths returns the paths of files in a folder of the project or of the user's configuration.
func openCodePaths(inProject, inConfig string, names ...string) func(p *Place) []string {
	return func(p *Place) (paths []string) {
		folder := filepath.Join(p.Folder, inProject)
		if p.User {
			folder = filepath.Join(cmp.Or(os.Getenv("XDG_CONFIG_HOME"), filepath.Join(p.Home, ".config")), inConfig)
		}
		for _, name := range names {
			paths = append(paths, filepath.Join(folder, name))
		}
		return paths
	}
}

func openCodeServer(s *Server) any {
	return struct {
		Type    string   `json:"type"`
		Command []string `json:"command"`
		Enabled bool     `json:"enabled"`
		Timeout int      `json:"timeout"`
	}{"local", append([]string{s.Program}, s.Args...), true, 120_000}
}
