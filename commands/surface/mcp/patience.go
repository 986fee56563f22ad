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
	// usualPatience is how long one tool call may wait if the client is unknown: most clients cancel a call after a
	// minute. Source: agents.md, "MCP".
	usualPatience = 55 * time.Second
	// spare is the part of a client's timeout that is not used for waiting.
	spare = 5 * time.Second
)

// clientTime is how long the client of one connection waits for the answer to a call. The zero value has no timeout
// for any client. It is safe for concurrent use.
type clientTime struct {
	of   func(host string) time.Duration // returns the timeout of a host; nil if none is known
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
