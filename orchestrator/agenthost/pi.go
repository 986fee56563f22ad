package agenthost

import (
	"cmp"
	_ "embed"
	"os"
	"path/filepath"
	"time"
)

// pi describes pi, whose extensions run in its process. One process has one session at a time.
var pi = Host{
	Name:     "pi",
	programs: []string{"pi", "pi-rpc"}, // the titles of its process, which hide its command line
	packages: []string{"@earendil-works/pi-coding-agent"},
	clients:  []string{"pi"},

	Connection: Connection{
		Asks: "Pi asks once whether to trust the folder. `pi -p` does not ask, and has tools and messages only if you already trust the folder or pass --approve.",
		Files: []File{
			{Paths: piPaths("mcp.json"), Servers: "mcpServers", Server: func(s *Server) any {
				return struct {
					Command  string   `json:"command"`
					Args     []string `json:"args"`
					Timeout  int      `json:"timeout"`
					Exposure string   `json:"exposure"` // otherwise only scripts can reach the tools
				}{s.Program, s.Args, 120, "direct"}
			}},
			{Paths: piPaths("extensions/mailroom.js"), Script: piExtension},
		},
		Off: []Setting{
			{Paths: piOwn("trust.json"), Names: inProject(nil, nil), Is: false, Says: "the folder is not trusted"},
		},
		NeverAsks: true,
		Calls:     CallTime{Key: "timeout", Unit: time.Second, Unsaid: time.Minute},
	},
	Sessions: Sessions{Streams: true},
}

//go:embed pi.js
var piExtension string

// piPaths returns the path of a file.
func piPaths(name string) func(p *Place) []string {
	return func(p *Place) []string {
		if p.User {
			return piOwn(name)(p)
		}
		return []string{filepath.Join(p.Folder, ".pi", name)}
	}
}

// piOwn returns the path of a file in the user's configuration.
func piOwn(name string) func(p *Place) []string {
	return func(p *Place) []string {
		return []string{filepath.Join(cmp.Or(os.Getenv("PI_CODING_AGENT_DIR"), filepath.Join(p.Home, ".pi", "agent")), name)}
	}
}
