package cli

import (
	"context"
	"fmt"

	urfave "github.com/urfave/cli/v2"

	"mailroom/commands/surface/hook"
	"mailroom/orchestrator"
)

// hookCommand answers the hooks of agent hosts.
func hookCommand(p *Program) *urfave.Command {
	return &urfave.Command{
		Name: "hook", Usage: "Answer a hook of an agent host", ArgsUsage: "EVENT",
		Description: "Run by agent hosts such as Claude Code, as `mailroom connect` configures them. It reads the host's JSON on standard input and\n" +
			"writes what the model is to be shown: new messages to the agent of --as. Whatever goes wrong, its exit status is 0 and it writes\n" +
			"nothing to show, so that it never disturbs the host; on a terminal it says what is wrong.\n\n" +
			"Example:\n\n    mailroom hook PostToolUse --host claude --as builder --db ~/src/shop/.mailroom/mailroom.db",
		Flags: []urfave.Flag{
			&urfave.StringFlag{Name: "host", Usage: "`HOST` whose event it is: claude, codex or gemini"},
		},
		Action: func(c *urfave.Context) error {
			if err := answerHook(p, c); err != nil && p.ErrTerminal {
				fmt.Fprintf(p.Err, "mailroom: %v\n", err)
			}
			return nil
		},
	}
}

// answerHook answers the event that a command line names. Its error must not become the exit status.
func answerHook(p *Program, c *urfave.Context) error {
	host := hook.Find(c.String("host"))
	if host == nil {
		return orchestrator.Errorf(orchestrator.InvalidParams, "host: %q is none that is known", orchestrator.Clip(c.String("host")))
	}
	ctx, cancel := context.WithTimeout(c.Context, hook.Patience)
	defer cancel()
	env, err := p.env(c)
	if err == nil {
		err = p.open(c, "", &env)
	}
	if err != nil {
		return host.Silent(p.Out, err)
	}
	defer env.Engine.Close()
	return host.Answer(ctx, env, c.Args().First(), p.In, p.Out)
}
