package cli

import (
	"cmp"
	"context"
	"log/slog"
	"slices"

	urfave "github.com/urfave/cli/v2"

	"mailroom/commands"
	"mailroom/commands/surface/remote"
	"mailroom/orchestrator"
	"mailroom/orchestrator/delivery"
)

// runAs runs a command line that the daemon received from another machine or over its socket. The line runs in the
// daemon's process, on its open database, and acts as the caller of its token.
func (p *Program) runAs(ctx context.Context, s *remote.Session, caller commands.Caller, engine *delivery.Engine) int {
	run := p.programFor(s)
	run.acts = &caller
	run.Open = func(context.Context, string, *slog.Logger) (*delivery.Engine, error) { return engine.Lend(), nil }
	getenv := run.Getenv
	run.Getenv = func(name string) string {
		if name == "MAILROOM_DB" {
			return engine.Path()
		}
		return getenv(name)
	}
	return run.Run(ctx, append([]string{"mailroom"}, s.Args...))
}

// servedOwn lists the program's own commands that can run for another machine.
var servedOwn = []string{"tail", "hook", "mcp", "whoami", "invoke", "version", "completion", "man"}

// mayServe refuses a line from another machine whose command must run on the machine with the database.
func (p *Program) mayServe(l *line) error {
	if p.acts == nil || len(l.path) == 0 {
		return nil
	}
	switch {
	case l.values[hostFlag] != "":
		return onlyThere(dashed(hostFlag))
	case l.definition == nil && !slices.Contains(servedOwn, l.path[0]):
		return onlyThere("`" + l.name() + "`")
	}
	return nil
}

// onlyThere returns the error for an operation that must run on the machine with the database.
func onlyThere(what string) error {
	return orchestrator.Errorf(orchestrator.PermissionDenied, "%s runs only on the machine that has the database", what).WithHint("Run the command on that machine")
}

// joined returns the caller for a line from another machine. The token determines the caller; only the token of a
// person may act as another agent.
func (p *Program) joined(c *urfave.Context) (commands.Caller, error) {
	caller := *p.acts
	session, err := orchestrator.CheckName("session", cmp.Or(c.String("session"), orchestrator.DefaultSession))
	if caller.Session = session; err != nil {
		return caller, saidIn("--session", err)
	}
	named, where := c.String("as"), "--as"
	if caller.Named = named != ""; named == "" {
		named, where = p.Getenv("MAILROOM_AGENT"), "MAILROOM_AGENT"
	}
	if named == "" {
		return caller, nil
	}
	if named, err = orchestrator.CheckName("agent", named); err != nil {
		return caller, saidIn(where, err)
	}
	if !caller.Shell && named != caller.Name {
		return caller, orchestrator.Errorf(orchestrator.PermissionDenied, "%s: this connection can act only as %s", where, caller.Name)
	}
	caller.Name = named
	return caller, nil
}
