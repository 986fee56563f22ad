package mcp

import (
	"cmp"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mailroom/commands"
	"mailroom/orchestrator/agenthost"
)

const (
	// usualPatience is how long one call of a tool may wait when the client is unknown: most clients cancel a call after
	// a minute. Source: agents.md, "MCP".
	usualPatience = 55 * time.Second
	// spare is what is left of a client's time for everything but the wait.
	spare = 5 * time.Second
)

// clientTime is how long the client of one connection waits for the answer to a call. The zero value knows nothing of
// it. It is safe for concurrent use.
type clientTime struct {
	of   func(host string) time.Duration // nil knows none
	once sync.Once
	time time.Duration
}

// patience returns how long a call of a command may wait.
func (c *clientTime) patience(d *commands.Definition, req *sdk.CallToolRequest) time.Duration {
	c.once.Do(func() {
		if client := req.ClientInfo(); c.of != nil && client != nil {
			c.time = c.of(agenthost.Client(client.Name).Host)
		}
	})
	if c.time > 0 {
		return c.time - min(spare, c.time/2)
	}
	return cmp.Or(d.Patience, usualPatience)
}
