package hosts

import "strings"

// OfClient returns the host whose client of the Model Context Protocol calls itself by a name, under the name by which connect knows
// it; "" for any other client.
func OfClient(name string) string {
	switch {
	case name == "claude-code":
		return "claude"
	case name == "codex-mcp-client":
		return "codex"
	case strings.HasPrefix(name, "gemini-cli-mcp-client"):
		return "gemini"
	case name == "opencode":
		return "opencode"
	}
	return ""
}
