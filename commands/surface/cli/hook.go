package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v2"

	"mailroom/commands"
	"mailroom/commands/surface/hook"
	"mailroom/commands/surface/remote"
	"mailroom/orchestrator"
	"mailroom/orchestrator/agenthost"
)

// hookCommand returns the command that answers the hooks of agent hosts.
func hookCommand(p *Program) *urfave.Command {
	return &urfave.Command{
		Name: "hook", Usage: "Answer a hook of an agent host", ArgsUsage: "EVENT",
		Description: "Agent hosts such as Claude Code run this command after `mailroom connect` has configured them. The command reads the host's JSON from\n" +
			"standard input and writes the new messages for the agent in --as to standard output. The host shows this output to its model. If\n" +
			"anything fails, the exit status is 0 and the output is empty, to avoid disturbing the host. On a terminal, the command prints the\n" +
			"error.\n\n" +
			"The event `wake` is for a hook that runs in the background. The command waits for new messages that must wake an idle session. It then\n" +
			"writes the number of messages to standard error and exits with status 2, which wakes Claude Code.\n\n" +
			"The event `queue` is for Codex. The hooks of Codex start the command in the background, and the command adds a prompt with the number of\n" +
			"new messages to the queue of Codex.\n\n" +
			"The event `stream` is for the plugins of OpenCode, Kilo, and pi. The command runs as long as the host does, and writes a line of JSON\n" +
			"for each delivery.\n\n" +
			"Example:\n\n    mailroom hook PostToolUse --host claude --as builder --db ~/src/shop/.mailroom/mailroom.db",
		Flags: []urfave.Flag{
			&urfave.StringFlag{Name: "host", Usage: "`HOST` that runs the hook: " + strings.Join(agenthost.Connectable(), ", ")},
			&urfave.StringFlag{Name: "program",
				Usage: "`FILE` of the host's program, for `mailroom hook queue` to run"},
			&urfave.StringFlag{Name: "scope",
				Usage: "user: the host is connected in all folders of the user, and the hook does nothing in a project that has its own connection"},
		},
		Action: func(c *urfave.Context) error {
			answer := answerHook
			switch c.Args().First() { // the hook that starts queue has already checked the host
			case "wake":
				answer = withDatabase(func(ctx context.Context, host *hook.Host, env commands.Env) error {
					nudge, err := host.Wake(ctx, env, p.In)
					if err != nil || nudge == "" {
						return err
					}
					fmt.Fprintln(p.Err, nudge)
					return wakesHost
				})
			case "queue":
				answer = withDatabase(func(ctx context.Context, host *hook.Host,
					env commands.Env) error {
					return host.Queue(ctx, env, p.In, p.delivered())
				})
			case "stream":
				answer = withDatabase(func(ctx context.Context, host *hook.Host, env commands.Env) error {
					return host.Stream(ctx, env, p.In, p.Out)
				})
			}
			return answer(p, c)
		},
	}
}

// failQuietly handles every error of a hook, including errors in its command line, which a newer version of the
// program may have written. It returns status 0, so that the error does not disturb the host. It prints the error on
// a terminal, for a person who tries the hook.
func failQuietly(p *Program, err error) int {
	if p.ErrTerminal {
		fmt.Fprintf(p.Err, "mailroom: %v\n", err)
	}
	return 0
}

// wakesHost is the only use of exit status 2 in the program. If a background hook ends with it, Claude Code begins a
// turn and gives the model the hook's standard error as the reason.
const wakesHost = exit(2)

// answerHook answers the event that a command line names.
func answerHook(p *Program, c *urfave.Context) error {
	host, err := hookHost(p, c)
	if err != nil {
		return err
	}
	if err := refused(p, c, host); err != nil {
		return host.Silent(p.Out, err)
	}
	place, err := p.elsewhere(c.String("db"))
	if err != nil {
		return host.Silent(p.Out, err)
	}
	if place != "" {
		return hookThere(p, c, host, place)
	}
	ctx, cancel := context.WithTimeout(c.Context, hook.Patience)
	defer cancel()
	host.Quiet = p.quiet(c)
	var env commands.Env
	defer func() {
		if env.Engine != nil {
			env.Engine.Close()
		}
	}()
	open := func() (_ commands.Env, err error) {
		env, err = opened(p, c)
		return env, err
	}
	return host.Answer(ctx, open, c.Args().First(), p.In, p.delivered())
}

// delivered returns the output to the host, here or on the other machine. A write returns after the host has received
// it.
func (p *Program) delivered() io.Writer {
	if p.there != nil {
		return shownThere{p.there}
	}
	return p.Out
}

// quiet returns the notes of the hooks. It returns nil for a database on a server, or without a state
// folder.
func (p *Program) quiet(c *urfave.Context) *hook.Quiet {
	folder := StateFolder(p.Getenv)
	database, err := p.absoluteDatabase(c)
	if folder == "" || err != nil || p.State == nil || p.there != nil || !filepath.IsAbs(database) {
		return nil
	}
	as, err := p.caller(c)
	if err != nil {
		return nil
	}
	return &hook.Quiet{Folder: filepath.Join(folder, "quiet"), Database: database, As: as.Name, State: p.State}
}

// absoluteDatabase returns the database that a command line names, as an absolute path or an address.
func (p *Program) absoluteDatabase(c *urfave.Context) (string, error) {
	database, err := p.databasePath(c.String("db"))
	if err != nil || strings.Contains(database, "://") || remote.IsPlace(database) {
		return database, err
	}
	return filepath.Abs(database)
}

// withDatabase returns an action that runs for as long as the host does. It logs only on a terminal, because the
// model could otherwise see the log.
func withDatabase(run func(ctx context.Context, host *hook.Host, env commands.Env) error) func(*Program,
	*urfave.Context) error {
	return func(p *Program, c *urfave.Context) error {
		host, err := hookHost(p, c)
		if err != nil {
			return err
		}
		env, err := p.env(c)
		if err != nil {
			return err
		}
		switch event := c.Args().First(); event {
		case "wake", "stream":
			if err := refused(p, c, host); err != nil {
				if event == "stream" { // the plugin would restart the command at once
					hook.Idle(c.Context, p.In)
				}
				return err
			}
		}
		place, err := p.elsewhere(c.String("db"))
		if err != nil {
			return err
		}
		if place != "" {
			return hookThere(p, c, host, place)
		}
		if !p.ErrTerminal {
			env.Log = slog.New(slog.DiscardHandler)
		}
		if err := p.open(c, "", &env); err != nil {
			return err
		}
		defer env.Engine.Close()
		return run(c.Context, host, env)
	}
}

// refused returns an error if the host that runs the hook is known to be another host than the configured one. The
// hook must then do nothing: it would take messages that nobody sees.
func refused(p *Program, c *urfave.Context, host *hook.Host) error {
	seen := agenthost.Around()
	switch {
	case p.there != nil: // the other machine has already checked this
		return nil
	case c.String("scope") == "user" && p.IsConnected(host.Name, true):
		return orchestrator.Errorf(orchestrator.PermissionDenied,
			"nothing was done: %s has its own connection in this project", host.Name)
	case host.OnlyInside && !seen.Other(host.Name) && host.Process().PID == 0:
		return orchestrator.Errorf(orchestrator.PermissionDenied,
			"nothing was done: the hooks are for %s, which did not start this process", host.Name)
	case !seen.Other(host.Name):
		return nil
	}
	caller, err := p.caller(c)
	if err != nil {
		return err
	}
	database, err := p.absoluteDatabase(c)
	if err != nil {
		return err
	}
	p.refuses(agenthost.Refusal{Host: host.Name, Seen: seen, What: "hooks", Agent: caller.Name, Database: database})
	return orchestrator.Errorf(orchestrator.PermissionDenied,
		"nothing was done: the hooks are for %s, but this host is %s: %s", host.Name, seen.Host, seen.By).
		WithHint("%s", seen.Own(database))
}

// refuses records, for doctor, that a host was refused.
func (p *Program) refuses(r agenthost.Refusal) error {
	r.Folder, _ = os.Getwd()
	r.At = time.Now()
	return r.Keep(StateFolder(p.Getenv))
}

func hookHost(p *Program, c *urfave.Context) (*hook.Host, error) {
	if found := hook.Find(c.String("host")); found != nil {
		host := *found
		host.Program = c.String("program")
		if p.there != nil {
			host.Elsewhere = farTranscript{p.there}
		}
		return &host, nil
	}
	return nil, orchestrator.Errorf(orchestrator.InvalidParams, "unknown host %q",
		orchestrator.Clip(c.String("host")))
}
