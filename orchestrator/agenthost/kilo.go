package agenthost

import "time"

// kilo describes Kilo CLI, which is derived from OpenCode and runs its plugins. Unlike OpenCode, it asks before
// using any tool.
var kilo = Host{
	Name:     "kilo",
	programs: []string{"kilo", "kilocode"},
	clients:  []string{"kilo"},

	Connection: Connection{
		Asks: "For any plugin, Kilo installs a package from the npm registry, once in each folder. Without a network connection, Kilo waits for the installation.",
		// Kilo also reads opencode.json, which overrides a kilo.json beside it but not one in .kilo.
		Files: []File{
			{Paths: openCodePaths(".kilo", "kilo", "kilo.json", "kilo.jsonc"), Format: LaxJSON, Servers: "mcp",
				Server: openCodeServer, Rule: &Rule{Object: "permission", Name: "mailroom_*", Ask: "ask", Allow: "allow"}},
			{Paths: openCodePaths(".kilo", "kilo", "plugins/mailroom.js"), Script: openCodePlugin},
		},
		Calls: CallTime{Key: "timeout", Unit: time.Millisecond, Unsaid: time.Minute},
	},
	Sessions: Sessions{Shared: true, Streams: true},
}
