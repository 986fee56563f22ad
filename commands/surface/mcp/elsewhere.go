package mcp

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agenthost"
)

// Owner is the host for which the tools of one agent were configured. Another that starts them, since it reads the same
// file, would take messages which the agent's model never sees: there each tool refuses, and a host that has tools of
// its own sees none of these.
type Owner struct {
	Host string // "": any host may use them
	// the host in which this process runs, which counts where the client's name is not known
	Around  agenthost.Seen
	Refused func(agenthost.Refusal) error // keeps that another host got nothing; nil keeps nothing

	IsConnected func(host string) bool // whether a host has tools of its own; nil: none has
}

// For has Serve serve the owner's host only.
func (s *Server) For(owner Owner) *Server {
	of := *s
	of.owner = owner
	return &of
}

// elsewhere is a middleware that answers another host than the owner in place of next.
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

// client returns the host that has sent a request. What its client calls itself decides. If that is not known, or --as
// auto has not found the host's process, the host around counts.
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
