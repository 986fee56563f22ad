package mcp

import (
	"context"
	"errors"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mailroom/commands"
	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
)

// arrival registers the one agent whose host has started `mailroom mcp` and makes it join its session when the host
// connects. It is safe for concurrent use.
type arrival struct {
	env   commands.Env // whose caller is the agent
	owner Owner

	refused sync.Once
	first   sync.Once
	mu      sync.Mutex
	done    bool // the agent is registered, or its failed join is final
}

// arrivalPatience is how long the first request of a host waits for the registration. If that is too short, the first
// tool call tries again.
const arrivalPatience = 2 * time.Second

// greet is a middleware that registers the agent at the host's first request: the request to initialize or, in newer
// versions of the protocol, any request.
func (a *arrival) greet(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		a.first.Do(func() {
			ctx, cancel := context.WithTimeout(ctx, arrivalPatience)
			defer cancel()
			if err := a.ready(ctx); err != nil {
				a.env.Log.Warn("the agent is not registered yet", "agent", a.env.Caller.Name, "error", err)
			}
		})
		return next(ctx, method, req)
	}
}

// ready registers the agent unless that is done. It does not create a missing database, since a host may start this
// program in any folder; the error reports the missing database.
func (a *arrival) ready(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.done {
		return nil
	}
	if a.env.Engine == nil { // requests that require no database are answered before it is open
		return orchestrator.Errorf(orchestrator.Unavailable, "the database is not available yet").WithHint("Call again")
	}
	if _, err := agents.List(ctx, a.env.Ledger); err != nil {
		return withMissing(err, a.env.Ledger)
	}
	a.done = true
	name := a.env.Caller.Name
	if name == "" || orchestrator.IsBuiltIn(name) {
		return nil
	}
	_, err := agents.Join(ledger.WithIdentity(ctx, name), a.env.Ledger,
		agents.Joining{Session: a.env.Caller.Session, Agent: name})
	switch orchestrator.CodeOf(err) {
	case orchestrator.Busy, orchestrator.Unavailable:
		a.done = err == nil
	}
	if err != nil { // each tool that needs the session reports the error itself
		a.env.Log.Warn("the agent cannot join its session", "agent", name, "session", a.env.Caller.Session, "error",
			err)
	}
	return nil
}

// withMissing adds a hint for the model about a missing database, which no tool can create.
func withMissing(err error, l *ledger.Ledger) error {
	var e *orchestrator.Error
	if !l.NoneYet() || !errors.As(err, &e) {
		return err
	}
	told := *e
	return told.WithHint("Tell the person who runs you: Run `mailroom init` in the project's folder, or configure the host to start "+
		"`mailroom mcp` with --db and the path of another database. When %s exists, call again", l.Path())
}
