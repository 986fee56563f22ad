package surface

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/urfave/cli/v2"

	"mailroom/commands"
	"mailroom/orchestrator"
)

// MCPCommand serves the tools to one agent on standard input and output.
func MCPCommand(p *Program) *cli.Command {
	return &cli.Command{
		Name: "mcp", Usage: "Serve an agent's tools over the Model Context Protocol, on standard input and output",
		HideHelpCommand: true, OnUsageError: usageError,
		Description: "Started by an agent's host. The agent is the one that --as names, and acts under no other name; without --as it\n" +
			"is the administrator, who sends and reads as operator. With one vocabulary its tools have their own names, with several those of coral begin\n" +
			"with coral_ and those of ralph with ralph_. The agent is registered when its host connects, and takes part in\n" +
			"the session that --session names. Hosts start it in other folders than the project's, so name the database with --db: where\n" +
			"none is, no tool makes it, and each answers what to do.\n\n" +
			"Example:\n\n    mailroom mcp --as builder --vocabulary relay,team --db ~/src/shop/.mailroom/mailroom.db",
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "vocabulary", Usage: "`NAMES` of the vocabularies to serve, with commas between them, or several times (default: all)"},
			&cli.BoolFlag{Name: "admin", Usage: "also serve the tools that are for administrators", DisableDefaultText: true},
		},
		Action: func(c *cli.Context) error {
			aside := *p // standard output is the client's
			aside.Out, aside.OutTerminal = p.Err, p.ErrTerminal
			if c.NArg() > 0 {
				return aside.failWith(c, orchestrator.Errorf(orchestrator.InvalidParams, "mcp takes no arguments: %q", c.Args().First()))
			}
			return aside.failWith(c, p.serveTools(c))
		},
	}
}

// serveTools serves until standard input ends.
func (p *Program) serveTools(c *cli.Context) error {
	log, err := p.logger(c)
	if err != nil {
		return err
	}
	caller, err := p.caller(c)
	if err == nil {
		err = orchestrator.CheckActor(caller.Name)
	}
	if err != nil {
		return err
	}
	caller.Admin, caller.Process = caller.Name == "" || c.Bool("admin"), os.Getpid()
	vocabularies, err := p.vocabularies(strings.Join(c.StringSlice("vocabulary"), ","))
	if err != nil {
		return err
	}
	router, err := p.open(c, "", log)
	if err != nil {
		return err
	}
	env := commands.Env{Router: router, Caller: caller, Log: log, Catalogue: p.Catalogue}
	tools := newToolServer(env)
	tools.arrival = &arrival{env: env}
	err = serveStream(c.Context, log, tools.server(p.Version, caller.Admin, vocabularies...), caller, p.In, p.Out)
	return errors.Join(err, router.Close())
}

// vocabularies reads the list of names.
func (p *Program) vocabularies(list string) (names []string, err error) {
	if list == "" {
		return nil, nil
	}
	known := p.Catalogue.Vocabularies()
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.ToLower(strings.TrimSpace(name)); !slices.Contains(known, name) {
			return nil, orchestrator.Errorf(orchestrator.InvalidParams, "vocabulary: there is none with the name %q", orchestrator.Clip(name)).
				WithHint("Known: %s", strings.Join(known, ", "))
		}
		names = append(names, name)
	}
	return names, nil
}

// serveStream serves one client until in ends or ctx does.
func serveStream(ctx context.Context, log *slog.Logger, s *mcp.Server, caller commands.Caller, in io.Reader, out io.Writer) error {
	gone, leave := context.WithCancel(ctx)
	defer leave()
	x := &exchange{caller: caller, gone: gone}
	answers := &lockedWriter{out: out}
	messages := onlyMessages(log, in, answers)
	defer messages.Close()
	transport := &watchedTransport{
		Transport: &mcp.IOTransport{Reader: messages, Writer: answers, MaxLineLength: maxLine + 1}, x: x, leave: leave,
	}
	err := s.Run(withExchange(ctx, x), transport)
	leave()
	x.end()
	if ctx.Err() != nil || errors.Is(err, io.EOF) || errors.Is(err, mcp.ErrConnectionClosed) {
		return nil
	}
	return err
}

// watchedTransport tells the exchange which answers were written, and when the client has gone.
type watchedTransport struct {
	mcp.Transport
	x     *exchange
	leave func()
}

// Connect implements mcp.Transport.
func (t *watchedTransport) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := t.Transport.Connect(ctx)
	return &watchedConnection{Connection: c, t: t, answered: make(chan struct{}, 1)}, err
}

type watchedConnection struct {
	mcp.Connection
	t        *watchedTransport
	open     openCalls
	answered chan struct{} // a hint that one was
}

// lastWords is how long calls under way may go on when standard input has ended: whoever pipes some requests in still reads
// the answers. What cannot be written then is taken back.
const lastWords = time.Second

// Read implements mcp.Connection.
func (c *watchedConnection) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := c.Connection.Read(ctx)
	c.open.heard(m)
	if err != nil {
		c.finish(ctx)
		c.t.leave()
	}
	return m, err
}

// finish waits for the answers to what was asked.
func (c *watchedConnection) finish(ctx context.Context) {
	patience := time.NewTimer(lastWords)
	defer patience.Stop()
	for c.open.count() > 0 {
		select {
		case <-c.answered:
		case <-patience.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// Write implements mcp.Connection.
func (c *watchedConnection) Write(ctx context.Context, m jsonrpc.Message) (err error) {
	answer, ok := m.(*jsonrpc.Response)
	if !ok {
		return c.Connection.Write(ctx, m)
	}
	wanted := c.open.answer(answer.ID)
	if wanted {
		err = c.Connection.Write(ctx, &jsonrpc.Response{ID: answer.ID, Result: answer.Result, Error: withCode(answer.Error, jsonrpc.CodeInvalidRequest)})
	}
	c.t.x.settle(answer.Result, wanted && err == nil)
	select {
	case c.answered <- struct{}{}:
	default:
	}
	return err
}
