package surface

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sort"
	"strconv"

	"github.com/urfave/cli/v2"

	"mailroom/commands"
	"mailroom/orchestrator"
)

// runCommand runs one command of the catalogue with the flags and arguments of a command line.
func (p *Program) runCommand(c *cli.Context, d *commands.Definition) error {
	if d.TakesBatch() && c.Bool("stdin") {
		return p.withEnv(c, d, nil, func(ctx context.Context, env commands.Env, out *printer) error {
			return p.runLines(ctx, env, d, c.Bool("atomic"), out)
		})
	}
	raw, err := p.paramsOf(c, d)
	if err != nil {
		return p.failWith(c, err)
	}
	return p.call(c, d, raw)
}

// call runs one command and prints its answer.
func (p *Program) call(c *cli.Context, d *commands.Definition, raw json.RawMessage) error {
	return p.withEnv(c, d, raw, func(ctx context.Context, env commands.Env, out *printer) error {
		ctx, finish := p.progress(ctx, out)
		if out.text {
			ctx = commands.WithNarrator(ctx, p.people(p.Out, p.OutTerminal))
		}
		answer, err := d.Run(ctx, env, raw)
		finish()
		if err != nil {
			return err
		}
		if err := out.answer(answer); err != nil {
			if back, ok := answer.Result.(commands.Unwritten); ok {
				err = errors.Join(err, back.Unwritten(context.WithoutCancel(ctx), env))
			}
			return &orchestrator.Error{Code: orchestrator.Unavailable, Message: "the answer could not be written", Err: err}
		}
		return nil
	})
}

// withEnv opens what a command needs, runs it, closes, and turns an error into its answer and exit status.
func (p *Program) withEnv(c *cli.Context, d *commands.Definition, raw json.RawMessage, run func(context.Context, commands.Env, *printer) error) (err error) {
	out, err := p.printer(c)
	if err != nil {
		return p.failWith(c, err)
	}
	env := commands.Env{Catalogue: p.Catalogue}
	if env.Log, err = p.logger(c); err != nil {
		return p.failWith(c, err)
	}
	if env.Caller, err = p.caller(c); err != nil {
		return p.failWith(c, err)
	}
	if d.UsesDatabase() {
		if env.Router, err = p.open(c, d.DatabaseAt(raw), env.Log); err != nil {
			return p.failWith(c, err)
		}
	}
	err = run(c.Context, env, out)
	if env.Router != nil {
		if cerr := env.Router.Close(); cerr != nil && err == nil {
			env.Log.Warn("closing the database", "error", cerr)
		}
	}
	if err != nil {
		return p.failWith(c, err)
	}
	return nil
}

func (p *Program) open(c *cli.Context, path string, log *slog.Logger) (*orchestrator.Router, error) {
	if path == "" {
		var err error
		if path, err = p.databasePath(c.String("db")); err != nil {
			return nil, err
		}
	}
	return p.Open(c.Context, path, log)
}

// failWith writes the answer of a command that failed.
func (p *Program) failWith(c *cli.Context, err error) error {
	var done exit
	if errors.As(err, &done) {
		return err
	}
	return exit(p.fail(c, err))
}

// fail writes the answer of a command that failed, in document 004's form, and returns the exit status.
func (p *Program) fail(c *cli.Context, err error) int {
	out := &printer{p: p, text: p.OutTerminal}
	if c != nil {
		if asked, perr := p.printer(c); perr == nil {
			out = asked
		}
	}
	out.failure(err)
	return commands.ExitStatus(err)
}

// paramsOf turns flags and arguments into the JSON of the params. It only converts; the definition judges.
func (p *Program) paramsOf(c *cli.Context, d *commands.Definition) (json.RawMessage, error) {
	values := map[string]json.RawMessage{}
	for i := range d.Params {
		param := &d.Params[i]
		if !c.IsSet(param.Flag()) {
			continue
		}
		value, err := p.flagValue(c, param)
		if err != nil {
			return nil, err
		}
		values[param.Name] = value
	}
	args := c.Args().Slice()
	for _, param := range positional(d) {
		if len(args) == 0 {
			break
		}
		if _, set := values[param.Name]; set {
			continue
		}
		taken := args[:1]
		if param.Arg == "rest" {
			taken = args
		}
		value, err := p.argument(param, taken)
		if err != nil {
			return nil, err
		}
		values[param.Name], args = value, args[len(taken):]
	}
	if len(args) > 0 {
		return nil, orchestrator.Errorf(orchestrator.InvalidParams, "too many arguments: %q is left over", args[0]).
			WithHint("`%s --help` shows what it takes; quote an argument that has spaces", d.CommandLine())
	}
	return commands.Marshal(values)
}

// positional lists the params that may stand as arguments, in order.
func positional(d *commands.Definition) (list []*commands.Param) {
	for i := range d.Params {
		if d.Params[i].Arg != "" {
			list = append(list, &d.Params[i])
		}
	}
	sort.SliceStable(list, func(i, j int) bool { return list[i].Arg < list[j].Arg }) // "rest" sorts behind digits
	return list
}

func (p *Program) flagValue(c *cli.Context, param *commands.Param) (json.RawMessage, error) {
	switch param.Kind {
	case commands.Boolean:
		return commands.Marshal(c.Bool(param.Flag()))
	case commands.List:
		return commands.Marshal(c.StringSlice(param.Flag()))
	}
	return p.scalar(param, c.String(param.Flag()))
}

func (p *Program) argument(param *commands.Param, words []string) (json.RawMessage, error) {
	if param.Kind == commands.List {
		return commands.Marshal(words)
	}
	if len(words) > 1 {
		var line bytes.Buffer
		for i, w := range words {
			if i > 0 {
				line.WriteByte(' ')
			}
			line.WriteString(w)
		}
		words = []string{line.String()}
	}
	return p.scalar(param, words[0])
}

// scalar turns the text of a flag or argument into JSON.
func (p *Program) scalar(param *commands.Param, text string) (json.RawMessage, error) {
	switch param.Kind {
	case commands.JSON:
		return p.jsonText(param.Name, text)
	case commands.Span:
		d, err := orchestrator.ParseDuration(text)
		if err != nil {
			return nil, badFlag(param, err)
		}
		if d%1e9 != 0 {
			return nil, badFlag(param, fmt.Errorf("%q is not a whole number of seconds", text))
		}
		return json.RawMessage(strconv.FormatInt(int64(d/1e9), 10)), nil
	case commands.Integer, commands.Number, commands.Boolean:
		if !json.Valid([]byte(text)) {
			return commands.Marshal(text) // the decoder says what is wrong with it
		}
		return json.RawMessage(text), nil
	}
	return commands.Marshal(text)
}

func badFlag(param *commands.Param, err error) error {
	e := orchestrator.Errorf(orchestrator.InvalidParams, "%s: %v", param.Name, err)
	e.Details = map[string]any{"parameter": param.Name}
	return e
}

// jsonText reads a JSON value: itself, @FILE, or - for standard input.
func (p *Program) jsonText(name, text string) (json.RawMessage, error) {
	var content []byte
	var err error
	switch {
	case text == "-":
		content, err = io.ReadAll(io.LimitReader(p.In, maxInput))
	case len(text) > 0 && text[0] == '@':
		content, err = readFile(text[1:])
	default:
		content = []byte(text)
	}
	if err != nil {
		return nil, &orchestrator.Error{Code: orchestrator.InvalidParams, Message: name, Err: err, Hint: "Name a file that can be read after the @"}
	}
	content = bytes.TrimSpace(content)
	if !json.Valid(content) {
		e := orchestrator.Errorf(orchestrator.InvalidParams, "%s: it is not JSON", name)
		e.Details = map[string]any{"parameter": name}
		return nil, e.WithHint(`A bare text needs quotes of its own: '"hello"'`)
	}
	return content, nil
}

// maxInput bounds what is read for one value; the decoder has tighter bounds, and says so.
const maxInput = 8 << 20

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxInput))
}
