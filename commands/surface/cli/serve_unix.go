//go:build unix

package cli

import (
	"context"
	"math"
	"path/filepath"
	"strings"

	urfave "github.com/urfave/cli/v2"

	"mailroom/commands"
	"mailroom/commands/surface/daemon"
	"mailroom/commands/surface/listener"
	"mailroom/commands/surface/phone"
	"mailroom/commands/surface/remote"
	"mailroom/commands/surface/web"
	"mailroom/orchestrator"
	"mailroom/orchestrator/messages"
	"mailroom/tracing/otlp"
)

// serve runs the daemon until it is told to stop.
func (p *Program) serve(c *urfave.Context) error {
	if c.NArg() > 0 {
		return orchestrator.Errorf(orchestrator.InvalidParams, "`mailroom serve` takes no arguments, but got %q", c.Args().First()).
			WithHint("To give an address, use a flag: `mailroom serve --listen 127.0.0.1:8080`")
	}
	rate, err := wholeNumber(c, "rate", 1, math.MaxInt32)
	if err != nil {
		return err
	}
	log, err := p.logger(c)
	if err != nil {
		return err
	}
	traces, err := otlp.Configure(c.String("otlp"), p.Getenv)
	if err != nil && c.String("otlp") != "" {
		return orchestrator.Errorf(orchestrator.InvalidParams, "%v", err)
	}
	if err != nil { // the variables may be meant for other programs, and messages matter more than traces
		log.Warn("cannot send traces", "error", err)
	}
	env := commands.Env{Catalogue: p.Catalogue, Log: log,
		Caller: commands.Caller{Admin: true, Session: orchestrator.DefaultSession}}
	if err := p.open(c, "", &env); err != nil {
		return err
	}
	socket, may := p.socketOf(c, env.Engine.Path())
	engine := env.Engine
	// Messages that the daemon sends are not caused by the agent whose command may have started it.
	err = daemon.Run(messages.WithCause(c.Context, messages.NewCause(nil)), env, daemon.Options{
		Web: web.Options{
			Address: c.String("listen"), Cert: c.String("tls-cert"), Key: c.String("tls-key"),
			Hosts:         c.StringSlice("host"),
			RatePerSecond: rate, Version: p.Version, Console: !c.Bool("no-console"), Named: named(env, p.Getenv),
			PlainHTTP: c.Bool("plain-http"), State: StateFolder(p.Getenv), Socket: socket,
			Run: func(ctx context.Context, s *remote.Session, caller commands.Caller) int {
				return p.runAs(ctx, s, caller, engine)
			},
		},
		SocketMay: may,
		Phone: phone.Options{Address: c.String("phone"), Cert: c.String("phone-tls-cert"),
			Key: c.String("phone-tls-key")},
		OTLP: traces, OTLPTexts: c.Bool("otlp-texts"),
		Hello: func(h daemon.Hello) error { return p.hello(h, c.IsSet("socket")) },
	})
	if err == nil && wasInterrupted(c.Context) {
		return stoppedOnTerminal(p)
	}
	return err
}

// socketOf returns the socket that the daemon serves: the one that the line names, or one next to the database file.
// may reports whether the daemon may run without the socket if the socket cannot be created.
func (p *Program) socketOf(c *urfave.Context, database string) (socket *listener.Socket, may bool) {
	path := c.String("socket")
	switch {
	case path == "off" || path == "" && strings.Contains(database, "://"):
		return nil, false
	case path == "":
		may, path = c.String("socket-group") == "", strings.TrimSuffix(database, filepath.Ext(database))+".sock"
	}
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return &listener.Socket{Path: path, Group: c.String("socket-group")}, may
}

// hello writes the first line of a daemon. Text output mentions the socket only if the command line names it.
func (p *Program) hello(h daemon.Hello, socketNamed bool) error {
	if !p.text() {
		return writeLine(p.Out, h)
	}
	w := p.people(p.Out, p.OutTerminal)
	w.Printf("Serving %s as %s. Stop with Ctrl-C.\n", h.Database, h.Instance)
	if h.Listening != "" {
		w.Printf("Tools: %s/mcp, commands: /v1/commands/NAME, health: /healthz /readyz /metrics\n", h.Listening)
	}
	if h.Socket != "" && socketNamed {
		w.Printf("Socket for containers: unix:%s\n", h.Socket)
	}
	if h.Phone != "" {
		w.Printf("Phone app: %s\n", h.Phone)
	}
	if h.OTLP != "" {
		w.Printf("Sending traces to %s\n", h.OTLP)
	}
	return w.Err()
}
