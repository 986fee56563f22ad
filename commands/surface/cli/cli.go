// Package cli is the command line: it reads the words, runs the command of the catalogue that they name, or the daemon, and
// writes the answer as JSON or as text for people. Help, completion and the man page are derived from the catalogue.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"mailroom/commands"
	"mailroom/orchestrator"
	"mailroom/orchestrator/delivery"
	"mailroom/tracing"
)

// Config is what the program is made of; cmd/mailroom fills it.
type Config struct {
	Catalogue *commands.Catalogue
	Open      func(ctx context.Context, path string, log *slog.Logger) (*delivery.Engine, error) // opens the database at a path
	Version   string
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

	definitions map[*urfave.Command]*commands.Definition
	global      map[string]bool // flags that may stand anywhere, and whether each takes a value
	output      string          // what --output asks for
	inputTaken  bool            // a parameter has been read from standard input
}

// Run runs one command line, args[0] being the program's name, and returns the exit status. It is never 2.
func (p *Program) Run(ctx context.Context, args []string) (status int) {
	ctx = tracing.WithParent(ctx, p.Getenv("TRACEPARENT"))
	defer func() {
		if e := recover(); e != nil {
			status = p.fail(p.bug(ctx, e))
		}
	}()
	app := p.app()
	if len(args) > 1 && args[1] == completeWord {
		p.complete(app, args[2:])
		return 0
	}
	err := p.dispatch(ctx, app, p.readArgs(app, args[0], args[1:]))
	var done exit
	switch {
	case err == nil:
		return 0
	case errors.As(err, &done):
		return int(done)
	}
	return p.fail(err)
}

// bug is the error of a panic outside every command. No span was there to record it: standard error gets the stack, under
// the trace id that the answer names.
func (p *Program) bug(ctx context.Context, panicked any) error {
	_, span := tracing.Start(ctx, "mailroom")
	fmt.Fprintf(p.Err, "mailroom: panic in trace %s: %v\n%s", span.TraceID, panicked, debug.Stack())
	return &orchestrator.Error{
		Code: orchestrator.Internal, Message: "a bug in mailroom", Err: fmt.Errorf("panic: %v", panicked),
		Hint: "Report it with the trace id " + span.TraceID, Details: map[string]any{"trace_id": span.TraceID},
	}
}

// dispatch answers a command line that has been read.
func (p *Program) dispatch(ctx context.Context, app *urfave.App, l *line) error {
	p.output = l.global("output")
	switch p.output {
	case "", "json", "text":
	default:
		return orchestrator.Errorf(orchestrator.InvalidParams, "output: %q is neither json nor text", p.output)
	}
	if err := l.checkCommand(); err != nil {
		return err
	}
	switch {
	case l.has("help", "h"):
		return p.help(app, l)
	case l.has("version", "v"):
		_, err := fmt.Fprintf(p.Out, "mailroom version %s\n", p.Version)
		return notWritten(err)
	}
	if err := l.checkFlags(); err != nil {
		return err
	}
	if l.current == nil {
		return p.help(app, l)
	}
	l.only(app)
	return app.RunContext(ctx, l.argv())
}

// exit is a status whose answer has been written already.
type exit int

func (e exit) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// app derives the command line from the catalogue.
func (p *Program) app() *urfave.App {
	app := &urfave.App{
		Name: "mailroom", HelpName: "mailroom", Version: p.Version,
		Usage:                     "messages between agents, around one SQLite table",
		UsageText:                 "mailroom COMMAND [--flags] [arguments]\nmailroom help COMMAND",
		Flags:                     globalFlags(),
		DisableSliceFlagSeparator: true,
		HideHelp:                  true, // --help and --version are ours: urfave's are shared by all programs of a process
		HideVersion:               true,
		Writer:                    p.Out, ErrWriter: p.Err, Reader: p.In,
		ExitErrHandler: func(*urfave.Context, error) {}, // Run sets the exit status
		OnUsageError:   usageError,
	}
	p.definitions = map[*urfave.Command]*commands.Definition{}
	p.global = flagTable(app.Flags)
	tree := &group{}
	for _, d := range p.Catalogue.All() {
		tree.add(d.Path, p.command(d))
	}
	app.Commands = tree.commands("")
	app.Commands = append(app.Commands, p.invokeCommand(), p.completionCommand(), p.manCommand(), p.serveCommand(), p.mcpCommand())
	for _, c := range app.Commands {
		c.HideHelp = true
	}
	return app
}

// globalFlags may stand anywhere on the command line.
func globalFlags() []urfave.Flag {
	return []urfave.Flag{
		&urfave.StringFlag{Name: "db", Usage: "`FILE` of the database", DefaultText: "MAILROOM_DB, or the nearest .mailroom/mailroom.db, or the user's own"},
		&urfave.StringFlag{Name: "as", Usage: "`NAME` of the agent that asks; otherwise MAILROOM_AGENT, otherwise the administrator, who sends and reads as operator"},
		&urfave.StringFlag{Name: "session", Usage: "`NAME` of the session that teams and threads belong to", DefaultText: orchestrator.DefaultSession},
		&urfave.StringFlag{Name: "output", Usage: "how to answer: `json|text`", DefaultText: "text on a terminal, otherwise json"},
		&urfave.StringFlag{Name: "log-level", Usage: "least `debug|info|warn|error` of what goes to standard error", DefaultText: "warn"},
		&urfave.BoolFlag{Name: "help", Aliases: []string{"h"}, Usage: "show help", DisableDefaultText: true},
		&urfave.BoolFlag{Name: "version", Aliases: []string{"v"}, Usage: "show the version", DisableDefaultText: true},
	}
}

// group is a level of the command tree: `agent` above `agent add`.
type group struct {
	names  []string
	leaves map[string]*urfave.Command
	groups map[string]*group
}

func (g *group) add(path []string, c *urfave.Command) {
	if g.groups == nil {
		g.groups, g.leaves = map[string]*group{}, map[string]*urfave.Command{}
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

func (g *group) commands(prefix string) (list []*urfave.Command) {
	for _, name := range g.names {
		c := g.leaves[name]
		if sub := g.groups[name]; sub != nil {
			path := strings.TrimSpace(prefix + " " + name)
			c = &urfave.Command{
				Name: name, Usage: strings.Join(sub.names, ", "), Subcommands: sub.commands(path),
				Action: func(*urfave.Context) error { return noCommand(path, sub.names) },
			}
		}
		c.HideHelp, c.OnUsageError = true, usageError
		list = append(list, c)
	}
	return list
}

// command derives one command of the command line from its definition, without what filled adds.
func (p *Program) command(d *commands.Definition) *urfave.Command {
	c := &urfave.Command{
		Name:   d.Path[len(d.Path)-1],
		Action: func(ctx *urfave.Context) error { return p.runCommand(ctx, d) },
	}
	p.definitions[c] = d
	return c
}

// filled returns a command with its usage and its flags, which it gets at the first call: to do that for all of them at
// every start would take a tenth of the time that a send takes. A flag that clashes with a global one panics.
func (p *Program) filled(c *urfave.Command) *urfave.Command {
	d := p.definitions[c]
	if d == nil || c.UsageText != "" {
		return c
	}
	c.Usage, c.UsageText = d.Summary(), usageText(d)
	for i := range d.Params() {
		flag := d.Params()[i].Flag()
		if _, taken := p.global[flag]; taken || (d.TakesBatch() && (flag == "stdin" || flag == "atomic")) {
			panic(fmt.Sprintf("%s: the flag --%s means something else already", d.Name, flag))
		}
		c.Flags = append(c.Flags, flagOf(&d.Params()[i]))
	}
	if d.TakesBatch() {
		c.Flags = append(c.Flags,
			&urfave.BoolFlag{Name: "stdin", Usage: "read params as JSON objects from standard input, one a line, and answer each with a line", DisableDefaultText: true},
			&urfave.BoolFlag{Name: "atomic", Usage: "with --stdin: do all or nothing", DisableDefaultText: true})
	}
	return c
}

// flagOf makes the flag of a parameter. All but switches and lists take a text: the surface turns it into JSON, so that
// the one strict decoder judges it.
func flagOf(param *commands.Param) urfave.Flag {
	usage := param.Desc
	if bounds := param.Bounds(); bounds != "" {
		usage += " (" + bounds + ")"
	}
	name := param.Flag()
	switch param.Kind {
	case commands.Boolean:
		return &urfave.BoolFlag{Name: name, Usage: usage, Value: param.Default == "true", DisableDefaultText: param.Default != "true"}
	case commands.List:
		return &urfave.StringSliceFlag{Name: name, Usage: usage}
	case commands.JSON:
		if param.TextOrObject {
			return &urfave.StringFlag{Name: name, Usage: usage + "; `TEXT|JSON|@FILE|-`"}
		}
		return &urfave.StringFlag{Name: name, Usage: usage + "; `JSON|@FILE|-`"}
	}
	return &urfave.StringFlag{Name: name, Usage: usage, DefaultText: param.Default}
}

func usageError(_ *urfave.Context, err error, _ bool) error {
	return &orchestrator.Error{Code: orchestrator.InvalidParams, Message: strings.TrimPrefix(err.Error(), "flag provided but not defined: "),
		Hint: "`--help` after the command lists its flags"}
}

// logger is the log of one command, on standard error.
func (p *Program) logger(c *urfave.Context) (*slog.Logger, error) {
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
// Without it that is the operator's, where a name is needed.
func (p *Program) caller(c *urfave.Context) (commands.Caller, error) {
	caller := commands.Caller{Name: c.String("as"), Session: c.String("session"), Admin: true, Shell: true}
	if caller.Name == "" {
		caller.Name = p.Getenv("MAILROOM_AGENT")
	}
	session, err := orchestrator.CheckName("session", cmp.Or(caller.Session, orchestrator.DefaultSession))
	if caller.Session = session; err != nil || caller.Name == "" {
		return caller, err
	}
	caller.Name, err = orchestrator.CheckName("agent", caller.Name)
	if caller.Name == p.Getenv("MAILROOM_AGENT") && !c.IsSet("db") { // as in the environment of what the daemon starts
		caller.Since = p.Getenv("MAILROOM_AGENT_SINCE")
	}
	return caller, err
}

// Standard is the program on the standard streams of this process.
func Standard(cfg Config) *Program {
	p := &Program{Config: cfg, In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv}
	p.OutTerminal, p.Width = terminal(os.Stdout)
	p.ErrTerminal, _ = terminal(os.Stderr)
	return p
}
