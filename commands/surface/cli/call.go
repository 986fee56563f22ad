package cli

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	ossignal "os/signal"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	urfave "github.com/urfave/cli/v2"

	"mailroom/commands"
	"mailroom/commands/parameter"
	"mailroom/commands/surface/remote"
	"mailroom/commands/terminal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
)

// runCommand runs one command of the catalogue with the flags and arguments of a command line. preset holds the
// parameters that are implied by the name under which the command was called.
func (p *Program) runCommand(c *urfave.Context, d *commands.Definition, preset map[string]json.RawMessage) error {
	if d.TakesBatch() && c.Bool("stdin") {
		if err := onlyLines(c, d); err != nil {
			return err
		}
		return p.withEnv(c, d, nil, func(ctx context.Context, env commands.Env) error {
			return p.runLines(ctx, env, d, c.Bool("atomic"))
		})
	}
	raw, err := p.paramsOf(c, d, preset)
	if err == nil && d.TakesBatch() && c.Bool("atomic") {
		err = orchestrator.Errorf(orchestrator.InvalidParams, "--atomic requires --stdin")
	}
	if err != nil {
		return err
	}
	return p.withEnv(c, d, raw, func(ctx context.Context, env commands.Env) error {
		finder := &idFinder{p: p, env: env, d: d, yes: c.Bool(yesFlag)}
		raw, err := finder.whole(ctx, raw)
		if err == nil && !finder.asked && !finder.yes {
			err = goesOn(ctx, p, env, d, raw)
		}
		if err == nil {
			err = meansAgent(ctx, env, d, c.Args().Slice(), p.asTyped)
		}
		if err != nil {
			return err
		}
		if d.Name == "connect" && canAsk(p) {
			return p.connectAndAsk(ctx, env, d, raw)
		}
		if !c.IsSet(waitFlag) || !waitsForAnswer(d) {
			return p.call(ctx, env, d, raw)
		}
		patience, err := orchestrator.ParseDuration(c.String(waitFlag))
		if err == nil && patience > longestWait {
			err = fmt.Errorf("must be at most 24h, but is %s", c.String(waitFlag))
		}
		if err != nil {
			return badValue(waitFlag, err, "")
		}
		result, err := p.answered(ctx, env, d, raw)
		if err != nil {
			return err
		}
		return p.awaitAnswer(ctx, env, result, patience)
	})
}

// onlyLines refuses parameters given together with --stdin, since each input line has its own parameters.
func onlyLines(c *urfave.Context, d *commands.Definition) error {
	for i := range d.Params() {
		if flag := d.Params()[i].Flag(); c.IsSet(flag) {
			return orchestrator.Errorf(orchestrator.InvalidParams,
				"--%s cannot be used with --stdin: each input line has its own parameters", flag)
		}
	}
	for _, flag := range []string{fileFlag, waitFlag} {
		if c.IsSet(flag) {
			return orchestrator.Errorf(orchestrator.InvalidParams, "--%s cannot be used with --stdin", flag)
		}
	}
	if c.NArg() > 0 {
		return orchestrator.Errorf(orchestrator.InvalidParams,
			"%q cannot be used with --stdin: each input line has its own parameters", c.Args().First()).
			WithHint("To read one text from standard input, write `-` instead of the text: `mailroom send NAME -`")
	}
	return nil
}

// call runs one command and prints its answer.
func (p *Program) call(ctx context.Context, env commands.Env, d *commands.Definition, raw json.RawMessage) error {
	result, err := p.answered(ctx, env, d, raw)
	if err != nil {
		return err
	}
	if result, ok := result.(commands.Exiter); ok && result.ExitStatus() != 0 {
		return exit(result.ExitStatus())
	}
	if d.UntilTold && wasInterrupted(ctx) {
		return stoppedOnTerminal(p)
	}
	return nil
}

// answered runs one command, prints its answer and returns the result.
func (p *Program) answered(ctx context.Context, env commands.Env, d *commands.Definition,
	raw json.RawMessage) (result any, err error) {
	report, finish := p.progress()
	env.Call.Progress = report
	if p.there != nil {
		env.Call.Ask = p.there.Ask
	}
	if p.text() {
		env.Call.Narrator = p.people(p.Out, p.OutTerminal)
	}
	if report != nil { // report is non-nil only if standard error is a terminal
		env.Call.Aside = p.people(p.Err, p.ErrTerminal)
	}
	answer, err := d.Run(ctx, env, raw)
	finish()
	if err != nil {
		return nil, err
	}
	return answer.Result, p.hand(ctx, env, p.Out, answer)
}

// hand writes an answer to out and then settles the messages in it: they become read if the write succeeded, and
// unread again if it failed. A second Ctrl-C does not interrupt this.
func (p *Program) hand(ctx context.Context, env commands.Env, out io.Writer, answer commands.Answer) error {
	_, takes := answer.Result.(commands.Handed)
	if takes {
		held := make(chan os.Signal, 1)
		ossignal.Notify(held, Stops()...)
		defer ossignal.Stop(held)
	}
	var whole bytes.Buffer
	if takes && p.there != nil {
		out = &whole
	}
	err := p.answer(out, answer)
	if err == nil && out == &whole {
		err = p.there.Deliver(whole.Bytes())
	}
	commands.Settle(ctx, env, answer, err == nil)
	if stop := stoppedBy(ctx); stop != 0 && errors.Is(err, context.Canceled) {
		return exit(128 + stop)
	}
	return notWritten(err)
}

// stoppable is an output whose writes end early after the command was told to stop. The reader may be gone by then:
// it was a pager, or its window was closed.
type stoppable struct {
	ctx context.Context
	out io.Writer
}

// lastWrite is how long a write may continue after the command was told to stop.
const lastWrite = time.Second / 4

// Write writes b. It returns context.Canceled for an abandoned write, which may have written part of b or all of it.
func (s stoppable) Write(b []byte) (int, error) {
	late, cancel := context.WithCancel(context.WithoutCancel(s.ctx))
	defer cancel()
	defer context.AfterFunc(s.ctx, func() { time.AfterFunc(lastWrite, cancel) })()
	return inTime(late, func() (int, error) { return s.out.Write(b) })
}

// closedPipe is the exit status of a command whose reader has gone, as in `mailroom list | head -1`. It equals the
// status of a process that SIGPIPE terminated. The program prints no message about it.
const closedPipe = exit(128 + 13)

// notWritten returns the error for an answer that could not be written because of err. It returns nil if err is nil.
func notWritten(err error) error {
	switch {
	case err == nil:
		return nil
	case isClosedPipe(err):
		return closedPipe
	}
	if e, ok := errors.AsType[*orchestrator.Error](err); ok { // an error of a jq filter
		return e
	}
	return &orchestrator.Error{Code: orchestrator.Unavailable, Message: "cannot write the answer", Err: err}
}

// withEnv opens the resources that a command needs, calls run and closes them. raw holds the parameters, or is nil if
// they are not yet known.
func (p *Program) withEnv(c *urfave.Context, d *commands.Definition, raw json.RawMessage,
	run func(context.Context, commands.Env) error) error {
	env, err := p.env(c)
	if err != nil {
		return err
	}
	if p.acts != nil && d.HereOnly && !d.ForPlaces {
		return onlyThere("`" + d.CommandLine() + "`")
	}
	if d.NoDatabase {
		return run(c.Context, env)
	}
	if d.AtPlaces && p.there != nil {
		return orchestrator.Errorf(orchestrator.InvalidParams, "%s must run on the machine that has the files of the agent host", d.CommandLine())
	}
	path := d.DatabaseAt(raw)
	if path != "" && (c.IsSet("db") || p.Getenv("MAILROOM_DB") != "") && c.NArg() == 0 && !c.IsSet("folder") {
		path = "" // only the default path of the command conflicts with --db and MAILROOM_DB
	}
	if path != "" && c.IsSet("db") {
		return orchestrator.Errorf(orchestrator.InvalidParams,
			"--db cannot be used with %s, because the arguments of that command determine the database", d.CommandLine())
	}
	if err := p.open(c, path, &env); err != nil {
		return err
	}
	err = run(c.Context, env)
	if other := p.Getenv("MAILROOM_DB"); path != "" && other != "" && err == nil {
		fmt.Fprintf(p.Err, "mailroom: until you unset MAILROOM_DB, commands use %s\n",
			terminal.Inline(other))
	}
	sayWhere(err, env.Database())
	if cerr := env.Close(); cerr != nil && err == nil {
		env.Log.Warn("cannot close the database", "error", cerr)
	}
	return err
}

// env returns the environment of a command, without a database.
func (p *Program) env(c *urfave.Context) (commands.Env, error) {
	env := commands.Env{Catalogue: p.Catalogue}
	var err error
	if env.Log, err = p.logger(c); err == nil {
		env.Caller, err = p.caller(c)
	}
	return env, err
}

// opened returns the environment of a command with the database that the command line and the environment variables
// select.
func opened(p *Program, c *urfave.Context) (commands.Env, error) {
	env, err := p.env(c)
	if err == nil {
		err = p.open(c, "", &env)
	}
	return env, err
}

// open opens the database at path and stores it in env. If path is "", the command line and the environment variables
// select the database.
func (p *Program) open(c *urfave.Context, path string, env *commands.Env) (err error) {
	if path == "" {
		if path, err = p.databasePath(c.String("db")); err != nil {
			return err
		}
	}
	if p.there == nil && remote.IsPlace(path) {
		at, err := remote.Parse(path)
		if err != nil {
			return err
		}
		client, err := p.clientOf(c.Context, at, p.dialing(p.Err, false), c.String("as"))
		if err == nil {
			env.Distant = p.distant(path, at, client, *env)
		}
		return err
	}
	if err := checkPlace(path); err != nil {
		return err
	}
	if c.IsSet(hostFlag) {
		if !ledger.IsHostName(c.String(hostFlag)) {
			return orchestrator.Errorf(orchestrator.InvalidParams,
				"--%s: %q is not a valid host name; use letters, digits, dots, hyphens, and underscores", hostFlag, c.String(hostFlag))
		}
		if err := os.Setenv(hostVariable, c.String(hostFlag)); err != nil {
			// set as a variable so that commands started by this process get it, too
			return err
		}
	}
	env.Engine, err = p.Open(c.Context, path, env.Log)
	return err
}

// sayWhere adds the database to an error about an unknown name, since the name may exist in another database.
func sayWhere(err error, path string) {
	var e *orchestrator.Error
	if !errors.As(err, &e) || errors.Is(err, fs.ErrNotExist) {
		// a missing file does not depend on the database
		return
	}
	switch e.Code {
	case orchestrator.UnknownSender, orchestrator.UnknownRecipient, orchestrator.NotFound:
	default:
		return
	}
	if e.Details == nil {
		e.Details = map[string]any{}
	}
	e.Details["database"] = path
	if e.Hint == "" {
		e.Hint = "Mailroom looked in " + path
	} else {
		e.Hint += " (looked in " + path + ")"
	}
}

// fail prints the error of a failed command, in the form of document 004, and returns the exit status. It always
// writes the error to standard error, too: in `id=$(mailroom send ...)`, a person sees nothing else.
func (p *Program) fail(err error) int {
	if !p.text() && !p.jq {
		_ = writeLine(p.Out, commands.Failure{Err: err}) // if this write fails, standard error still gets the error
	}
	p.sayFailure(err)
	return commands.ExitStatus(err)
}

// paramsOf converts flags and arguments to the JSON of the parameters. It does not validate them; the definition
// does.
func (p *Program) paramsOf(c *urfave.Context, d *commands.Definition,
	preset map[string]json.RawMessage) (json.RawMessage, error) {
	values := map[string]json.RawMessage{}
	maps.Copy(values, preset)
	given := c.LocalFlagNames()
	for i := range d.Params() {
		param := &d.Params()[i]
		if !slices.Contains(given, param.Flag()) {
			continue
		}
		value, err := p.flagValue(c, param)
		if err != nil {
			return nil, err
		}
		values[param.Name] = value
	}
	args := c.Args().Slice()
	var flagged *parameter.Param // the first parameter given as a flag that can also be an argument
	for _, param := range d.Positional() {
		if len(args) == 0 {
			break
		}
		if slices.Contains(given, param.Flag()) {
			flagged = cmp.Or(flagged, param)
			continue
		}
		taken := args[:1]
		if param.Arg == "rest" {
			taken = args
		}
		if flagged != nil && param.Kind == parameter.JSON && len(taken) > 1 {
			return nil, orchestrator.InvalidParam(flagged.Name, "given twice, as --%s and as %q", flagged.Flag(),
				orchestrator.Clip(args[0])).
				WithHint("If the argument is the beginning of a text, put quotes around the whole text: `%s --%s ... \"TEXT\"`",
					d.CommandLine(), flagged.Flag())
		}
		value, err := p.argument(c.Context, param, taken, len(args) <= p.asTyped)
		if err != nil {
			return nil, err
		}
		values[param.Name], args = value, args[len(taken):]
	}
	if len(args) > 0 {
		hint := "Put quotes around an argument that contains spaces"
		if flagged != nil {
			hint = "Give a value either with --" + flagged.Flag() + " or as an argument, not both"
		}
		return nil, orchestrator.Errorf(orchestrator.InvalidParams, "too many arguments: unexpected %q",
			orchestrator.Clip(args[0])).
			WithHint("To see the arguments, run `%s --help`. %s", d.CommandLine(), hint)
	}
	if text := textOf(d); text != nil && c.IsSet(fileFlag) {
		if err := p.textOfFile(c, text, values); err != nil {
			return nil, err
		}
	}
	for i := range d.Params() {
		param := &d.Params()[i]
		_, given := values[param.Name]
		_, beside := values[param.With[0]]
		switch {
		case given:
		case beside:
			values[param.Name] = json.RawMessage(orchestrator.JSONString(param.With[1]))
		case param.With[0] != "":
			e := orchestrator.InvalidParam(param.With[0], "a value is required")
			if d.Name == "send" && c.NArg() == 1 && strings.Contains(c.Args().First(), " ") {
				return nil, e.WithHint(quoteText + ". To send to all agents, use the name `all`")
			}
			return nil, e.WithHint("Give a text: `%s %s`. To read the text from standard input, write `-` instead of the text. To send no text, give --%s", d.CommandLine(), argsUsage(d), param.Flag())
		case param.Required && param.Arg != "":
			return nil, orchestrator.InvalidParam(param.Name, "a value is required (%s)", param.Desc).
				WithHint("Run `%s %s`", d.CommandLine(), argsUsage(d))
		case param.Required:
			return orchestrator.Unmended(values) // the decoder reports the missing value
		}
	}
	return orchestrator.Unmended(values)
}

func (p *Program) flagValue(c *urfave.Context, param *parameter.Param) (json.RawMessage, error) {
	switch param.Kind {
	case parameter.Boolean:
		return orchestrator.JSON(c.Bool(param.Flag()))
	case parameter.List:
		return list(param, c.StringSlice(param.Flag()))
	}
	return p.scalar(c.Context, param, c.String(param.Flag()))
}

// argument returns the JSON value of a parameter given as words. asTyped reports that the words follow --.
func (p *Program) argument(ctx context.Context, param *parameter.Param, words []string,
	asTyped bool) (json.RawMessage, error) {
	switch param.Kind {
	case parameter.List:
		return list(param, words)
	case parameter.JSON:
		if param.Arg == "rest" {
			return plainText(ctx, p, param, strings.Join(words, " "), asTyped)
		}
	}
	return p.scalar(ctx, param, strings.Join(words, " "))
}

// list converts words to a JSON list. One word can hold several names, separated by commas or spaces, since names
// contain neither. Mentions are separated by commas only, since display names can contain spaces.
func list(param *parameter.Param, words []string) (json.RawMessage, error) {
	if param.NameOf != "" {
		parts := strings.FieldsFunc(strings.Join(words, ","),
			func(r rune) bool { return r == ',' || r == ' ' && param.NameOf != "mention" })
		words = parts[:0]
		for _, part := range parts {
			if part = strings.TrimSpace(part); part != "" {
				words = append(words, part)
			}
		}
	}
	if param.Name == "options" && len(words) == 1 { // a choice needs at least two options
		words = strings.Split(words[0], ",")
	}
	for _, word := range words {
		if !utf8.ValidString(word) {
			return nil, notUTF8(param)
		}
	}
	return orchestrator.JSON(words)
}

// notUTF8 returns the error for a command line word that is not valid UTF-8 and that JSON therefore cannot represent.
func notUTF8(param *parameter.Param) error {
	return badValue(param.Name, errors.New("not valid UTF-8"), "")
}

// scalar converts the text of a flag or argument to JSON.
func (p *Program) scalar(ctx context.Context, param *parameter.Param, text string) (json.RawMessage, error) {
	if !utf8.ValidString(text) && (param.Kind != parameter.JSON || !strings.HasPrefix(text, "@")) {
		return nil, notUTF8(param)
	}
	if strings.HasPrefix(param.NameOf, "agent") {
		text = strings.TrimPrefix(text, "@") // people write @NAME to mention an agent
		if madeHere().MatchString(text) {
			return nil, orchestrator.InvalidParam(param.Name, "must be the name of an agent, but %s is the ID of a message", text).
				WithHint("To see the message, run `mailroom show %s`", text)
		}
	}
	switch param.Kind {
	case parameter.JSON:
		return p.jsonText(ctx, param, text)
	case parameter.Span:
		d, err := orchestrator.ParseDuration(text)
		if err != nil {
			return nil, badValue(param.Name, err, "")
		}
		if d%1e9 != 0 {
			return nil, badValue(param.Name, fmt.Errorf("must be a whole number of seconds, but is %q", text), "")
		}
		return json.RawMessage(strconv.FormatInt(int64(d/1e9), 10)), nil
	case parameter.Integer, parameter.Number, parameter.Boolean:
		if word := strings.ToLower(text); param.Name == "priority" && slices.Contains(orchestrator.Priorities, word) {
			return orchestrator.JSON(orchestrator.PriorityOf(word))
		}
		if !json.Valid([]byte(text)) {
			return orchestrator.JSON(text) // the decoder reports the error
		}
		return json.RawMessage(text), nil
	}
	return orchestrator.JSON(text)
}
