package cli

import (
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v2"

	"mailroom/commands"
	"mailroom/commands/surface/mcp"
	"mailroom/orchestrator"
	"mailroom/orchestrator/agenthost"
	"mailroom/orchestrator/agents"
)

// mcpCommand returns the command that serves tools to one agent on standard input and output.
func mcpCommand(p *Program) *urfave.Command {
	return &urfave.Command{
		Name: "mcp", Usage: "Serve an agent's tools over the Model Context Protocol, on standard input and output",
		Description: "Agent hosts start this command. The tools act only as the agent in --as. Without --as, they act as the administrator, who sends and\n" +
			"reads as operator. With one vocabulary, the tools have the names of that vocabulary. With several vocabularies, the names of coral tools\n" +
			"begin with coral_, and the names of ralph tools begin with ralph_. Mailroom registers the agent when the host connects. The agent\n" +
			"takes part in the session in --session.\n\n" +
			"A host can start this command outside the folder of the project, so give the database with --db. If the database does not exist, no\n" +
			"tool creates it, and each tool returns instructions for creating it.\n\n" +
			"With --as auto and --host, each process of the host, and therefore each terminal, has its own agent, such as claude-2. Mailroom adds\n" +
			"the agent if it does not exist, and removes it one hour after its session has ended.\n\n" +
			"Example:\n\n    mailroom mcp --as builder --vocabulary relay,team --db ~/src/shop/.mailroom/mailroom.db",
		Flags: []urfave.Flag{
			&urfave.StringSliceFlag{Name: "vocabulary",
				Usage: "`NAMES` of the vocabularies to serve, separated by commas or in several flags (default: all)"},
			&urfave.StringFlag{Name: "host",
				Usage: "`HOST` that uses the tools: " + strings.Join(agenthost.Connectable(), ", ") + ". In any other host, the tools only report the mismatch"},
			&urfave.BoolFlag{Name: "admin", Usage: "also serve the tools for administrators",
				DisableDefaultText: true},
		},
		Action: p.serveTools,
	}
}

// serveTools serves until standard input ends.
func (p *Program) serveTools(c *urfave.Context) error {
	// Errors go to standard error, since standard output belongs to the client.
	defer func() { p.Out, p.OutTerminal = p.Err, p.ErrTerminal }()
	if c.NArg() > 0 {
		return orchestrator.Errorf(orchestrator.InvalidParams, "`mailroom mcp` takes no arguments, but got %q", c.Args().First())
	}
	env, err := p.env(c)
	if err == nil {
		err = agents.CheckActor(env.Caller.Name)
	}
	if err != nil {
		return err
	}
	env.Caller.Admin, env.Caller.Process = env.Caller.Admin && (env.Caller.Name == "" || c.Bool("admin")), os.Getpid()
	if p.acts != nil {
		env.Caller.Process = 0 // the process is the daemon, which outlives this session
	}
	vocabularies, err := p.vocabularies(strings.Join(c.StringSlice("vocabulary"), ","))
	if err != nil {
		return err
	}
	host := c.String("host")
	if host != "" && !agenthost.Known(host) {
		return orchestrator.Errorf(orchestrator.InvalidParams, "unknown host %q",
			orchestrator.Clip(host))
	}
	if err := p.open(c, "", &env); err != nil {
		return err
	}
	owner, callTime := p.owner(host)
	if env.Caller.Name == orchestrator.Auto && !owner.Around.Other(host) {
		if env.Caller.Name, err = autoCaller(p, c, env); err != nil {
			return errors.Join(err, env.Engine.Close())
		}
	}
	server := mcp.NewServer(env, p.Version).For(owner)
	server.CallTime = callTime
	err = server.Serve(c.Context, p.In, p.delivered(), vocabularies...)
	if _, ours := errors.AsType[*orchestrator.Error](err); !ours {
		err = notWritten(err)
	}
	return errors.Join(err, env.Engine.Close())
}

// owner returns the host that uses the tools, as seen from the machine on which the command line was typed. callTime
// returns how long a host waits for the result of a call.
func (p *Program) owner(host string) (o mcp.Owner, callTime func(host string) time.Duration) {
	if p.there != nil {
		return farOwner(p.there, host)
	}
	return mcp.Owner{Host: host, Around: agenthost.Around(), Refused: p.refuses,
		IsConnected: func(host string) bool { return p.IsConnected(host, false) }}, p.CallTime
}

// autoCaller returns the agent of the host process that started this program.
func autoCaller(p *Program, c *urfave.Context, env commands.Env) (string, error) {
	host, err := hookHost(p, c)
	if err != nil {
		return "", err
	}
	return host.Caller(c.Context, env)
}

// vocabularies parses a list of vocabulary names.
func (p *Program) vocabularies(list string) (names []string, err error) {
	if list == "" {
		return nil, nil
	}
	known := p.Catalogue.Vocabularies()
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.ToLower(strings.TrimSpace(name)); !slices.Contains(known, name) {
			return nil, orchestrator.Errorf(orchestrator.InvalidParams, "unknown vocabulary %q",
				orchestrator.Clip(name)).
				WithHint("Use one or more of these: %s", strings.Join(known, ", "))
		}
		names = append(names, name)
	}
	return names, nil
}
