package mcp

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agenthost"
)

// Owner is the host for which the tools of one agent are configured. Another host may start the tools because it
// reads the same configuration file, and would take messages that the agent's model never sees. In such a host, each
// tool returns an error. If the other host has Mailroom tools of its own, it gets an empty tool list.
type Owner struct {
	Host string // "" permits any host
	// Around is the host around this process. It counts if the name of the client is unknown.
	Around  agenthost.Seen
	Refused func(agenthost.Refusal) error // records the refusal of another host; nil records nothing

	IsConnected func(host string) bool // whether a host has its own Mailroom tools; nil: none has
}

// For returns a server whose Serve serves only the owner's host.
func (s *Server) For(owner Owner) *Server {
	of := *s
	of.owner = owner
	return &of
}

// elsewhere is a middleware that refuses the requests of other hosts than the owner.
func (a *arrival) elsewhere(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		seen := a.client(req)
		if a.owner.Host == "" || !seen.Other(a.owner.Host) {
			return a.greet(next)(ctx, method, req)
		}
		if method == "tools/list" && a.owner.IsConnected != nil && a.owner.IsConnected(seen.Host) {
			return &sdk.ListToolsResult{Tools: []*sdk.Tool{}}, nil
		}
		database, agent := a.env.Ledger.Path(), a.env.Caller.Name
		a.refused.Do(func() {
			if a.owner.Refused == nil {
				return
			}
			err := a.owner.Refused(agenthost.Refusal{Host: a.owner.Host, Seen: seen, What: "tools", Agent: agent,
				Database: database})
			if err != nil {
				a.env.Log.Warn("cannot record for `mailroom doctor` that another host started these tools", "host", seen.Host, "error",
					err)
			}
		})
		why := orchestrator.Errorf(orchestrator.PermissionDenied,
			"nothing was done: these tools are connected for %s, but this host is %s (%s)",
			a.owner.Host, seen.Host, seen.By).WithHint("%s", seen.Own(database))
		switch method {
		case "tools/call":
			return toolFailure(why)
		case "resources/read", "resources/subscribe", "subscriptions/listen":
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: why.Error() + " (" + why.Hint + ")"}
		}
		return next(ctx, method, req)
	}
}

// client returns the host that sent a request. The name in its ClientInfo decides. If that is unknown, or if --as
// auto has not found the host's process, client returns the host around this process.
func (a *arrival) client(req sdk.Request) agenthost.Seen {
	if a.env.Caller.Name == orchestrator.Auto {
		return a.owner.Around
	}
	var who *sdk.Implementation
	if first, is := req.GetParams().(*sdk.InitializeParams); is {
		who = first.ClientInfo
	} else if r, is := req.(interface{ ClientInfo() *sdk.Implementation }); is {
		who = r.ClientInfo()
	}
	if who != nil {
		if seen := agenthost.Client(who.Name); seen.Host != "" {
			return seen
		}
	}
	return a.owner.Around
}
