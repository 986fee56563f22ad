package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"mailroom/commands"
	"mailroom/commands/parameter"
	"mailroom/orchestrator"
)

// invokeCommand returns the command that runs any command of the catalogue by name, with its parameters as JSON.
func invokeCommand(p *Program) *urfave.Command {
	return &urfave.Command{
		Name: "invoke", Usage: "Run a command by name with its parameters as JSON", ArgsUsage: "NAME [JSON|@FILE|-]",
		Description: "You can write NAME with - or _, and with or without the prefix `orchestrator.`. Without JSON, the parameters are {}.\n" +
			"With -, the command reads the parameters from standard input.\n\nExample:\n\n" +
			`    mailroom invoke route-inter-agent-messages '{"ACTION":"poll","RECIPIENT":"code_developer","BATCH_SIZE":10}'`,
		Action: func(c *urfave.Context) error {
			if c.NArg() > 2 {
				return orchestrator.Errorf(orchestrator.InvalidParams,
					"`mailroom invoke` takes a name and one JSON object, but %d words follow the name", c.NArg()-1).
					WithHint(`The shell split the JSON at a space. Put single quotes around all of the JSON, as in '{"a": "b"}'`)
			}
			if c.NArg() == 0 {
				return orchestrator.Errorf(orchestrator.InvalidParams, "`mailroom invoke` requires the name of a command").
					WithHint("To list the names, run `mailroom commands`")
			}
			d, err := p.Catalogue.Lookup(c.Args().First())
			if err != nil {
				return inItsPlace(p, c.Args().First(), err)
			}
			raw := json.RawMessage("{}")
			if c.NArg() == 2 {
				if raw, err = p.jsonText(c.Context, &parameter.Param{Name: "parameters"}, c.Args().Get(1)); err != nil {
					return err
				}
			}
			return p.withEnv(c, d, raw,
				func(ctx context.Context, env commands.Env) error { return p.call(ctx, env, d, raw) })
		},
	}
}

// inItsPlace adds a hint to the error about an unknown command name: the command that has this name in a shell, or
// that corresponds to a command of another tool.
func inItsPlace(p *Program, name string, err error) error {
	e, ok := errors.AsType[*orchestrator.Error](err)
	if !ok {
		return err
	}
	for _, d := range p.Catalogue.All() {
		if slices.Contains(d.CommandLines(), "mailroom "+name) {
			e.Details = map[string]any{"near": []string{d.Name}}
			return e.WithHint("Use the name %s", d.Name)
		}
	}
	if ours := cmp.Or(elsewhere[strings.ToLower(name)], aliases[strings.ToLower(name)]); ours != "" {
		e.Details = nil
		return e.WithHint("Use `%s` instead", "mailroom "+ours)
	}
	return err
}
