package cli

import (
	"cmp"

	urfave "github.com/urfave/cli/v2"

	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/agenthost"
)

// identity holds the agent and the database that commands use.
type identity struct {
	Agent    string `json:"agent"`
	Because  string `json:"because"`
	Session  string `json:"session"`
	Database string `json:"database"`
	Exists   bool   `json:"exists"`
	Host     string `json:"host,omitempty"` // the agent host that runs this process
}

// whoamiCommand returns the command that shows the agent and the database that commands use in this folder.
func whoamiCommand(p *Program) *urfave.Command {
	return &urfave.Command{
		Name: "whoami", Usage: "Show the agent and the database that commands use in this folder",
		Description: "The command changes nothing.\n\nExample:\n\n    mailroom whoami --as alice",
		Action: func(c *urfave.Context) error {
			if c.NArg() > 0 {
				return orchestrator.Errorf(orchestrator.InvalidParams, "`mailroom whoami` takes no arguments, but got %q",
					orchestrator.Clip(c.Args().First()))
			}
			env, err := p.env(c)
			if err != nil {
				return err
			}
			i := identity{Agent: cmp.Or(env.Caller.Name, orchestrator.Operator), Session: env.Caller.Session,
				Because: "no name is given"}
			if p.there == nil {
				i.Host = agenthost.Around().Host
			}
			switch {
			case p.acts != nil && p.acts.Name != "":
				i.Because = "the database was joined as this agent"
			case c.IsSet("as"):
				i.Because = "--as"
			case env.Caller.Name != "":
				i.Because = "MAILROOM_AGENT"
			}
			if err := p.open(c, "", &env); err != nil {
				return err
			}
			i.Database, i.Exists = env.Ledger.Path(), env.Engine.Store.Exists()
			if err := env.Engine.Close(); err != nil {
				return err
			}
			return p.show(i)
		},
	}
}

// show prints the result of one of the program's own commands.
func (p *Program) show(result interface{ Text(w *terminal.Text) }) error {
	if !p.text() {
		return notWritten(writeLine(p.Out, result))
	}
	w := p.people(p.Out, p.OutTerminal)
	result.Text(w)
	return notWritten(w.Err())
}

// Text prints the identity for people.
func (i identity) Text(w *terminal.Text) {
	there := ""
	if !i.Exists {
		there = " (does not exist yet)"
	}
	w.Fields([2]string{"agent", i.Agent + " (" + i.Because + ")"}, [2]string{"session", i.Session},
		[2]string{"database", i.Database + there})
	if i.Host != "" {
		w.Fields([2]string{"host", i.Host})
	}
}
