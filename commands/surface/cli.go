// Package surface is how a request comes in: the command line, schedules and the daemon's endpoints. All of it is
// derived from the catalogue; no surface knows a command by name.
package surface

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"mailroom/commands"
	"mailroom/orchestrator"
	"mailroom/tracing"
)

// Config is what the program is made of; cmd/mailroom fills it.
type Config struct {
	Catalogue *commands.Catalogue
	// Open opens the database at a path.
	Open func(ctx context.Context, path string, log *slog.Logger) (*orchestrator.Router, error)
	// Extra are commands of the command line that are no commands of the catalogue, such as serve.
	Extra   []func(*Program) *cli.Command
	Version string
}

// Program is one run of the command line.
type Program struct {
	Config
	In          io.Reader
	Out, Err    io.Writer
	OutTerminal bool // standard output is a terminal: text for people unless --output says otherwise
	ErrTerminal bool
	Width       int // of the terminal; 0 is unknown
	Getenv      func(string) string
}

// Run runs one command line, args[0] being the program's name, and returns the exit status. It is never 2.
func (p *Program) Run(ctx context.Context, args []string) (status int) {
	defer func() {
		if e := recover(); e != nil {
			status = p.fail(nil, fmt.Errorf("panic: %v", e))
		}
	}()
	ctx = tracing.WithParent(ctx, p.Getenv("TRACEPARENT"))
	app := p.app()
	argv, err := reorder(app, args)
	if err == nil {
		err = app.RunContext(ctx, argv)
	}
	var done exit
	switch {
	case err == nil:
		return 0
	case errors.As(err, &done):
		return int(done)
	}
	return p.fail(nil, err)
}

// exit is a status whose answer has been written already.
type exit int

func (e exit) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// app derives the command line from the catalogue.
func (p *Program) app() *cli.App {
	app := &cli.App{
		Name: "mailroom", HelpName: "mailroom", Version: p.Version,
		Usage:                     "messages between agents, around one SQLite table",
		Flags:                     globalFlags(),
		EnableBashCompletion:      true,
		DisableSliceFlagSeparator: true,
		HideHelpCommand:           true,
		Writer:                    p.Out, ErrWriter: p.Err, Reader: p.In,
		ExitErrHandler: func(*cli.Context, error) {}, // Run sets the exit status
		OnUsageError:   usageError,
		CommandNotFound: func(*cli.Context, string) {
		},
		Action: func(c *cli.Context) error { return p.noCommand(c, p.app().Commands, "mailroom") },
	}
	tree := &group{}
	for _, d := range p.Catalogue.All() {
		tree.add(d.Path, p.command(d))
	}
	app.Commands = tree.commands(p, "mailroom")
	app.Commands = append(app.Commands, p.invokeCommand(), p.completionCommand(), p.manCommand())
	for _, extra := range p.Extra {
		app.Commands = append(app.Commands, extra(p))
	}
	return app
}

// globalFlags may stand anywhere on the command line.
func globalFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "db", Usage: "`FILE` of the database", DefaultText: "see DATABASE"},
		&cli.StringFlag{Name: "as", Usage: "`NAME` of the agent that asks; otherwise MAILROOM_AGENT, otherwise the administrator"},
		&cli.StringFlag{Name: "session", Usage: "`NAME` of the session that teams and threads belong to", DefaultText: "default"},
		&cli.StringFlag{Name: "output", Usage: "`json|text`", DefaultText: "text on a terminal, otherwise json"},
		&cli.StringFlag{Name: "log-level", Usage: "`debug|info|warn|error` of what goes to standard error", DefaultText: "warn"},
	}
}

// group is a level of the command tree: `agent` above `agent add`.
type group struct {
	names  []string
	leaves map[string]*cli.Command
	groups map[string]*group
}

func (g *group) add(path []string, c *cli.Command) {
	if g.groups == nil {
		g.groups, g.leaves = map[string]*group{}, map[string]*cli.Command{}
	}
	if len(path) == 1 {
		g.names = append(g.names, path[0])
		g.leaves[path[0]] = c
		return
	}
	if g.groups[path[0]] == nil {
		g.groups[path[0]] = &group{}
		g.names = append(g.names, path[0])
	}
	g.groups[path[0]].add(path[1:], c)
}

func (g *group) commands(p *Program, prefix string) (list []*cli.Command) {
	for _, name := range g.names {
		c := g.leaves[name]
		if sub := g.groups[name]; sub != nil {
			path := prefix + " " + name
			children := sub.commands(p, path)
			c = &cli.Command{
				Name: name, Usage: "see `" + path + " --help`", Subcommands: children, HideHelpCommand: true, OnUsageError: usageError,
				Action: func(ctx *cli.Context) error { return p.noCommand(ctx, children, path) },
			}
			c.Usage = strings.Join(sub.names, ", ")
		}
		if dashed := strings.ReplaceAll(name, "_", "-"); dashed != name {
			c.Aliases = append(c.Aliases, dashed)
		}
		list = append(list, c)
	}
	return list
}

// command derives one command of the command line from its definition.
func (p *Program) command(d *commands.Definition) *cli.Command {
	c := &cli.Command{
		Name: d.Path[len(d.Path)-1], Usage: d.Summary(), ArgsUsage: argsUsage(d), Description: d.Help(),
		HideHelpCommand: true, OnUsageError: usageError,
		Action: func(ctx *cli.Context) error { return p.runCommand(ctx, d) },
	}
	for i := range d.Params {
		c.Flags = append(c.Flags, flagOf(&d.Params[i]))
	}
	if d.TakesBatch() {
		c.Flags = append(c.Flags,
			&cli.BoolFlag{Name: "stdin", Usage: "read params as JSON objects from standard input, one a line, and answer each with a line"},
			&cli.BoolFlag{Name: "atomic", Usage: "with --stdin: do all or nothing"})
	}
	c.BashComplete = p.complete(d)
	return c
}

func argsUsage(d *commands.Definition) string {
	var words []string
	for _, param := range positional(d) {
		word := strings.ToUpper(param.Name)
		if param.Arg == "rest" {
			word += "..."
		}
		if !param.Required {
			word = "[" + word + "]"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// flagOf makes the flag of a parameter. All but switches and lists take a text: the surface turns it into JSON, so that
// the one strict decoder judges it.
func flagOf(param *commands.Param) cli.Flag {
	usage := param.Desc
	if bounds := param.Bounds(); bounds != "" && len(param.OneOf) == 0 {
		usage += " (" + bounds + ")"
	}
	name := param.Flag()
	switch param.Kind {
	case commands.Boolean:
		return &cli.BoolFlag{Name: name, Usage: usage, Value: param.Default == "true"}
	case commands.List:
		return &cli.StringSliceFlag{Name: name, Usage: usage}
	case commands.JSON:
		return &cli.StringFlag{Name: name, Usage: usage + "; `JSON|@FILE|-`"}
	}
	return &cli.StringFlag{Name: name, Usage: usage, DefaultText: param.Default}
}

func usageError(_ *cli.Context, err error, _ bool) error {
	return &orchestrator.Error{Code: orchestrator.InvalidParams, Message: strings.TrimPrefix(err.Error(), "flag provided but not defined: "),
		Hint: "`--help` after the command lists its flags"}
}

// noCommand answers a command line that names no command, or one that there is not.
func (p *Program) noCommand(c *cli.Context, list []*cli.Command, prefix string) error {
	name := c.Args().First()
	if name == "" {
		if err := cli.ShowSubcommandHelp(c); err != nil {
			return err
		}
		if prefix == "mailroom" {
			return nil
		}
		return exit(64)
	}
	var names []string
	for _, sub := range list {
		names = append(names, sub.Name)
	}
	e := orchestrator.Errorf(orchestrator.UnknownCommand, "there is no command %q", prefix+" "+name)
	if near := orchestrator.Nearest(name, names); len(near) > 0 {
		e.Details = map[string]any{"near": near}
		return e.WithHint("Did you mean %s?", strings.Join(near, " or "))
	}
	return e.WithHint("`%s --help` lists them", prefix)
}

// logger is the log of one command, on standard error.
func (p *Program) logger(c *cli.Context) (*slog.Logger, error) {
	level := slog.LevelWarn
	if text := c.String("log-level"); text != "" {
		if err := level.UnmarshalText([]byte(text)); err != nil {
			return nil, orchestrator.Errorf(orchestrator.InvalidParams, "log-level: %q is none of debug, info, warn, error", text)
		}
	}
	o := &slog.HandlerOptions{Level: level}
	if p.ErrTerminal {
		return slog.New(slog.NewTextHandler(p.Err, o)), nil
	}
	return slog.New(slog.NewJSONHandler(p.Err, o)), nil
}

// caller is who asks on the command line: whoever can open the file can do all, so that --as only says in whose name.
func (p *Program) caller(c *cli.Context) (commands.Caller, error) {
	caller := commands.Caller{Name: c.String("as"), Session: c.String("session"), Admin: true}
	if caller.Name == "" {
		caller.Name = p.Getenv("MAILROOM_AGENT")
	}
	if caller.Session == "" {
		caller.Session = "default"
	}
	if caller.Name == "" {
		return caller, nil
	}
	name, err := orchestrator.CheckName("agent", caller.Name)
	caller.Name = name
	return caller, err
}

// Standard is the program on the standard streams of this process.
func Standard(cfg Config) *Program {
	p := &Program{Config: cfg, In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv}
	p.OutTerminal, p.Width = terminal(os.Stdout)
	p.ErrTerminal, _ = terminal(os.Stderr)
	return p
}
