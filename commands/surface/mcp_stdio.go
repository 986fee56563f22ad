package surface

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"

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
			"is the administrator. With one vocabulary its tools have their own names, with several those of coral begin\n" +
			"with coral_.\n\nExample:\n\n    mailroom mcp --as builder --vocabulary relay,team",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "vocabulary", Usage: "`NAMES` of the vocabularies to serve, with commas between them", DefaultText: "all"},
			&cli.BoolFlag{Name: "admin", Usage: "also serve the tools that are for administrators", DisableDefaultText: true},
		},
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return p.failWith(c, orchestrator.Errorf(orchestrator.InvalidParams, "mcp takes no arguments: %q", c.Args().First()))
			}
			if err := p.serveTools(c); err != nil {
				return p.failWith(c, err)
			}
			return nil
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
	if err != nil {
		return err
	}
	caller.Admin = caller.Name == "" || c.Bool("admin")
	vocabularies, err := p.vocabularies(c.String("vocabulary"))
	if err != nil {
		return err
	}
	router, err := p.open(c, "", log)
	if err != nil {
		return err
	}
	env := commands.Env{Router: router, Caller: caller, Log: log, Catalogue: p.Catalogue}
	err = serveStream(c.Context, newToolServer(env).server(p.Version, caller.Admin, vocabularies...), caller, p.In, p.Out)
	return errors.Join(err, router.Close())
}

// vocabularies reads the list of names.
func (p *Program) vocabularies(list string) (names []string, err error) {
	if list == "" {
		return nil, nil
	}
	var known []string
	for _, d := range p.Catalogue.All() {
		if name := d.Vocabulary().Name; !slices.Contains(known, name) {
			known = append(known, name)
		}
	}
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.ToLower(strings.TrimSpace(name)); !slices.Contains(known, name) {
			return nil, orchestrator.Errorf(orchestrator.InvalidParams, "vocabulary: there is none with the name %q", clip(name)).
				WithHint("Known: %s", strings.Join(known, ", "))
		}
		names = append(names, name)
	}
	return names, nil
}

// serveStream serves one client until in ends or ctx does.
func serveStream(ctx context.Context, s *mcp.Server, caller commands.Caller, in io.Reader, out io.Writer) error {
	gone, leave := context.WithCancel(ctx)
	defer leave()
	x := &exchange{caller: caller, gone: gone}
	transport := &watchedTransport{
		Transport: &mcp.IOTransport{Reader: io.NopCloser(in), Writer: writeOnly{out}, MaxLineLength: maxBody}, x: x, leave: leave,
	}
	err := s.Run(withExchange(ctx, x), transport)
	leave()
	x.end()
	if ctx.Err() != nil || errors.Is(err, io.EOF) || errors.Is(err, mcp.ErrConnectionClosed) {
		return nil
	}
	return err
}

type writeOnly struct{ io.Writer }

func (writeOnly) Close() error { return nil }

// watchedTransport tells the exchange which answers were written, and when the client has gone.
type watchedTransport struct {
	mcp.Transport
	x     *exchange
	leave func()
}

// Connect implements mcp.Transport.
func (t *watchedTransport) Connect(ctx context.Context) (mcp.Connection, error) {
	c, err := t.Transport.Connect(ctx)
	return &watchedConnection{c, t}, err
}

type watchedConnection struct {
	mcp.Connection
	t *watchedTransport
}

// Read implements mcp.Connection.
func (c *watchedConnection) Read(ctx context.Context) (jsonrpc.Message, error) {
	m, err := c.Connection.Read(ctx)
	if err != nil {
		c.t.leave()
	}
	return m, err
}

// Write implements mcp.Connection.
func (c *watchedConnection) Write(ctx context.Context, m jsonrpc.Message) error {
	err := c.Connection.Write(ctx, m)
	if answer, ok := m.(*jsonrpc.Response); ok {
		c.t.x.settle(answer.Result, err == nil)
	}
	return err
}
