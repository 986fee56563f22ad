// Package cli implements the command line. It parses the words, runs the command that they name or the daemon, and
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
	ossignal "os/signal"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	urfave "github.com/urfave/cli/v2"

	"mailroom/commands"
	"mailroom/commands/surface/remote"
	"mailroom/orchestrator"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/overview"
	"mailroom/tracing"
)

// Config holds the parts that cmd/mailroom supplies to the program.
type Config struct {
	Catalogue *commands.Catalogue
	Open      func(ctx context.Context, path string, log *slog.Logger) (*delivery.Engine, error) // opens the database at a path
	// State returns a text that changes with every commit to the database in a file, see sqlite.State. If State is
	// nil, no state is known.
	State   func(path string) (state string, known bool)
	Version string
	Now     func() time.Time // current time in texts for people; nil means time.Now
	// CallTime returns how long the named agent host waits for the result of a tool call to `mailroom mcp`. It
	// returns 0 if that is not known. CallTime may be nil.
	CallTime func(host string) time.Duration

	// IsConnected reports whether the configuration of the named agent host has Mailroom tools, in the working folder
	// or above it or, unless project is set, for all folders of the user.
	IsConnected func(host string, project bool) bool
	// Connections checks the agent hosts on this machine that are connected with a database on another machine. If
	// mend is set, it also repairs paths. If Connections is nil, there are no findings.
	Connections func(ctx context.Context, env commands.Env, mend bool) overview.Findings
}

// Program is one run of the command line. Its streams and its environment are fields so that tests can replace them.
type Program struct {
	Config
	In          io.Reader
	Out, Err    io.Writer
	OutTerminal bool // standard output is a terminal
	ErrTerminal bool
	InTerminal  bool // a person can answer questions
	Width       int  // width of the terminal in characters; 0 if not known
	Getenv      func(string) string
	// Begin is called before a command runs, and the function that it returns is called after the command has ended.
	// Begin installs the signal handling. It is not called for --version, help and completion, which must be quick.
	// It may be nil.
	Begin func(context.Context) (context.Context, context.CancelFunc)

	output     string // json or text, from a flag or MAILROOM_OUTPUT; "" is the default of the command
	document   bool   // the command answers programs, see isDocument
	jq         bool   // a jq expression filters the answer
	inputTaken bool   // a parameter has been read from standard input
	asTyped    int    // number of arguments after --

	words   []string         // words of the command line
	project *nearestProject  // nil until looked up
	there   *remote.Session  // session with the machine for which this program runs; nil if there is none
	acts    *commands.Caller // caller for a line run by the daemon; nil is the user logged in here
}

// Run runs one command line and returns the exit status. args[0] is the program's name. The status is never 2, which
// agent hosts treat as "block", except for `hook wake`, which uses 2 to keep its host from going idle. Any other
// failure of a hook ends with status 0.
func (p *Program) Run(ctx context.Context, args []string) (status int) {
	ctx = tracing.WithParent(ctx, p.Getenv("TRACEPARENT"))
	ctx = messages.WithCause(ctx, messages.NewCause(strings.Fields(p.Getenv("MAILROOM_MESSAGE_IDS"))))
	fail := p.fail
	defer func() {
		if e := recover(); e != nil {
			status = fail(p.bug(ctx, e))
		}
	}()
	if len(args) > 1 && args[1] == completeWord && (p.acts == nil || p.acts.Admin) {
		p.complete(args[2:])
		return 0
	}
	l := p.readArgs(args[1:])
	p.document, p.words = l.isDocument(), l.words
	if l.name() == "mailroom hook" {
		fail = func(err error) int { return failQuietly(p, err) }
	}
	err := p.dispatch(ctx, l)
	var done exit
	switch {
	case err == nil:
		return 0
	case errors.As(err, &done) && (done != closedPipe || l.name() != "mailroom hook"):
		return int(done)
	}
	return fail(err)
}

// bug returns the error for a panic outside any command, such as during parsing. No span records such a panic, so bug
// writes the stack to standard error, with the trace ID that the error also contains.
func (p *Program) bug(ctx context.Context, panicked any) error {
	_, span := tracing.Start(ctx, "mailroom")
	fmt.Fprintf(p.Err, "mailroom: panic in trace %s: %v\n%s", span.TraceID, panicked, debug.Stack())
	return commands.Bug(fmt.Errorf("panic: %v", panicked), span.TraceID)
}

// dispatch executes a command line: it shows the help or the version, or runs a command.
func (p *Program) dispatch(ctx context.Context, l *line) error {
	var err error
	if p.output, err = p.outputOf(l); err != nil {
		return err
	}
	if err := l.checkCommand(); err != nil {
		return err
	}
	if err := l.checkWords(); err != nil {
		return err
	}
	switch {
	case l.has(helpFlags...):
		return p.help(l)
	case l.has(versionFlags...):
		return printVersion(p)
	}
	if expression, filters := l.values["jq"]; filters && p.there != nil {
		p.jq = true // the other machine filters
	} else if filters {
		filter, err := filtered(p.Out, expression)
		if err != nil {
			return err
		}
		p.Out, p.jq = filter, true
	}
	if err := l.checkFlags(); err != nil {
		return err
	}
	if len(l.path) == 0 {
		return p.help(l)
	}
	if len(l.next) > 0 {
		return orchestrator.Errorf(orchestrator.InvalidParams, "%s is a group of commands, not a command", l.name()).
			WithHint("Add one of these commands: %s", strings.Join(names(l.next), ", "))
	}
	if err := p.mayServe(l); err != nil {
		return err
	}
	place, err := p.place(l)
	if err != nil {
		return err
	}
	if p.Begin != nil {
		begun, end := p.Begin(ctx)
		defer end()
		ctx = begun
		p.Out = stoppable{ctx, p.Out}
	}
	if place != "" {
		return p.runThere(ctx, l, place)
	}
	err = p.parser(l).RunContext(ctx, l.argv())
	stop := stoppedBy(ctx)
	if err == nil || l.name() == "mailroom hook" || stop == 0 {
		return err
	}
	var done exit
	if !errors.As(err, &done) {
		sayInterrupted(ctx, p, err)
	}
	return exit(128 + stop) // as shells do
}

// sayInterrupted reports the error of a command that a signal ended. Usually the message is just "interrupted".
func sayInterrupted(ctx context.Context, p *Program, err error) {
	if p.ErrTerminal {
		fmt.Fprintln(p.Err) // the terminal has printed ^C
	}
	if isStop(ctx, err) {
		err = orchestrator.Errorf(orchestrator.Unavailable, "interrupted")
	}
	p.fail(err)
}

// isStop reports whether err is only the cancellation of ctx.
func isStop(ctx context.Context, err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx))
}

// interruptedStatus is the exit status of a command that Ctrl-C ended, as in shells.
const interruptedStatus = exit(130)

// Stops returns the signals that tell a command to stop: SIGINT, SIGTERM and, unless it is ignored as under nohup,
// SIGHUP for a closed terminal.
func Stops() []os.Signal {
	if ossignal.Ignored(syscall.SIGHUP) {
		return []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	}
	return []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}
}

// stoppedBy returns the signal that told the program to stop, or 0.
func stoppedBy(ctx context.Context) syscall.Signal {
	if cause := context.Cause(ctx); cause != nil {
		for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
			if strings.HasPrefix(cause.Error(), s.String()+" ") { // format of signal.NotifyContext
				return s
			}
		}
	}
	return 0
}

// wasInterrupted reports whether Ctrl-C told the program to stop.
func wasInterrupted(ctx context.Context) bool { return stoppedBy(ctx) == syscall.SIGINT }

// outputVariable names the environment variable that sets the output format if the command line does not.
const outputVariable = "MAILROOM_OUTPUT"

// outputOf returns the output format for a line: json, text, or "" if neither the line nor the environment sets one.
func (p *Program) outputOf(l *line) (output string, err error) {
	if l.waiting == "output" {
		return "", l.valueMissing()
	}
	output = l.values["output"]
	if _, filters := l.values["jq"]; filters {
		if output == "text" || l.has("text") {
			return "", orchestrator.Errorf(orchestrator.InvalidParams, "--jq filters JSON, so it cannot be used with text output")
		}
		return "json", nil
	}
	for _, short := range []string{"json", "text"} {
		switch {
		case !l.has(short):
		case output != "" && output != short:
			return "", orchestrator.Errorf(orchestrator.InvalidParams, "--%s cannot be used with another output format",
				short)
		default:
			output = short
		}
	}
	name := "output"
	if output == "" && l.name() == "mailroom invoke" {
		return "json", nil
	}
	if output == "" {
		output, name = strings.ToLower(p.Getenv(outputVariable)), outputVariable
	}
	switch output {
	case "", "json", "text":
		return output, nil
	}
	return "", orchestrator.Errorf(orchestrator.InvalidParams, "%s must be json or text, but is %q", name, output)
}

func versionCommand(p *Program) *urfave.Command {
	return &urfave.Command{
		Name: "version", Usage: "Show the version", Description: "Prints the same as `mailroom --version`. With JSON output (--json), prints {\"version\":...} instead.",
		Action: func(*urfave.Context) error {
			if p.output == "json" {
				return notWritten(writeLine(p.Out, map[string]string{"version": p.Version}))
			}
			return printVersion(p)
		},
	}
}

func printVersion(p *Program) error {
	_, err := fmt.Fprintf(p.Out, "mailroom version %s\n", p.Version)
	return notWritten(err)
}

// exit is the exit status of a command that failed and has already written its answer. Run prints nothing more for
// it.
type exit int

func (e exit) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// parser returns the flag parser for the one command that a line names. It contains no other command, because the
// parser prepares every command that it contains.
func (p *Program) parser(l *line) *urfave.App {
	flags := slices.Concat(globalFlags(), l.called.Flags)
	for i, f := range flags {
		if _, isList := f.(*urfave.StringSliceFlag); !isList { // the parser checks for this type
			flags[i] = fixedFlag{f, namesOf(f)}
		}
	}
	return &urfave.App{
		Name: "mailroom", Flags: flags, Action: l.called.Action,
		DisableSliceFlagSeparator: true,
		HideHelp:                  true, // urfave's --help and --version are shared by all programs of a process
		HideVersion:               true,
		Writer:                    p.Out, ErrWriter: p.Err, Reader: p.In,
		ExitErrHandler: func(*urfave.Context, error) {}, // Run sets the exit status
		OnUsageError: func(_ *urfave.Context, err error, _ bool) error {
			return orchestrator.Errorf(orchestrator.InvalidParams, "%s",
				strings.TrimPrefix(err.Error(), "flag provided but not defined: ")).WithHint(helpListsFlags)
		},
	}
}

// fixedFlag is a flag with stored names. The parser asks each flag for its names in every lookup, and urfave's own
// flags recompute them each time with a regular expression.
type fixedFlag struct {
	urfave.Flag
	names []string
}

// Names implements urfave.Flag.
func (f fixedFlag) Names() []string { return f.names }

const helpListsFlags = "To list the flags, run the command with `--help`"

// wholeNumber returns the value of a flag that must be a whole number from low to high.
func wholeNumber(c *urfave.Context, name string, low, high int) (int, error) {
	n, err := strconv.Atoi(c.String(name))
	if err != nil || n < low || n > high {
		return 0, orchestrator.Errorf(orchestrator.InvalidParams, "%s: %q is not a whole number from %d to %d",
			dashed(name), orchestrator.Clip(c.String(name)), low, high).
			WithHint(helpListsFlags)
	}
	return n, nil
}

// logger returns the log that a command writes to standard error: text on a terminal, otherwise JSON.
func (p *Program) logger(c *urfave.Context) (*slog.Logger, error) {
	level := slog.LevelWarn
	if text := c.String("log-level"); text != "" {
		if err := level.UnmarshalText([]byte(text)); err != nil {
			return nil, orchestrator.Errorf(orchestrator.InvalidParams,
				"log-level must be debug, info, warn, or error, but is %q", text)
		}
	}
	o := &slog.HandlerOptions{Level: level}
	if p.ErrTerminal {
		return slog.New(slog.NewTextHandler(p.Err, o)), nil
	}
	return slog.New(slog.NewJSONHandler(p.Err, o)), nil
}

// caller returns the caller of the command. On the command line every caller is an administrator, since anybody who
// can open the database file can change all of it. --as and MAILROOM_AGENT only select the agent in whose name the
// command acts. Without either, commands that need a name use the operator's.
func (p *Program) caller(c *urfave.Context) (commands.Caller, error) {
	if p.acts != nil {
		return p.joined(c)
	}
	caller := commands.Caller{Name: cmp.Or(c.String("as"), p.Getenv("MAILROOM_AGENT")), Session: c.String("session"),
		Admin: true, Shell: true, Named: c.IsSet("as")}
	session, err := orchestrator.CheckName("session", cmp.Or(caller.Session, orchestrator.DefaultSession))
	if caller.Session = session; err != nil || caller.Name == "" {
		return caller, saidIn("--session", err)
	}
	if caller.Name, err = orchestrator.CheckName("agent", caller.Name); err != nil {
		if c.String("as") != "" {
			return caller, saidIn("--as", err)
		}
		return caller, saidIn("MAILROOM_AGENT", err)
	}
	// The daemon sets MAILROOM_AGENT_SINCE together with MAILROOM_AGENT for the programs that it starts.
	if caller.Name == p.Getenv("MAILROOM_AGENT") && !c.IsSet("db") {
		caller.Since = p.Getenv("MAILROOM_AGENT_SINCE")
	}
	return caller, nil
}

// saidIn prefixes an error with the place of the value that caused it. It returns nil if err is nil.
func saidIn(place string, err error) error {
	if e, ok := errors.AsType[*orchestrator.Error](err); ok {
		e.Message = place + ": " + e.Message
	}
	return err
}

// Standard returns a program that uses the standard streams and the environment of this process.
func Standard(cfg Config) *Program {
	p := &Program{Config: cfg, In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv}
	p.OutTerminal, p.Width = isTerminal(os.Stdout)
	p.ErrTerminal, _ = isTerminal(os.Stderr)
	p.InTerminal, _ = isTerminal(os.Stdin)
	return p
}
