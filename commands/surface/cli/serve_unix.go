//go:build unix

package cli

import (
	"math"

	urfave "github.com/urfave/cli/v2"

	"mailroom/commands"
	"mailroom/commands/surface/daemon"
	"mailroom/commands/surface/phone"
	"mailroom/commands/surface/web"
	"mailroom/orchestrator"
	"mailroom/orchestrator/messages"
	"mailroom/tracing/otlp"
)

// serve runs the daemon until it is asked to stop.
func (p *Program) serve(c *urfave.Context) error {
	if c.NArg() > 0 {
		return orchestrator.Errorf(orchestrator.InvalidParams, "serve takes no arguments: %q", c.Args().First()).
			WithHint("An address stands behind a flag: `mailroom serve --listen 127.0.0.1:8080`")
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
	if err != nil { // the variables may be meant for other programs, and mail matters more than traces
		log.Warn("no traces are sent", "error", err)
	}
	env := commands.Env{Catalogue: p.Catalogue, Log: log,
		Caller: commands.Caller{Admin: true, Session: orchestrator.DefaultSession}}
	if err := p.open(c, "", &env); err != nil {
		return err
	}
	// What it sends is for others than the agent whose command may have started it.
	err = daemon.Run(messages.WithCause(c.Context, messages.NewCause(nil)), env, daemon.Options{
		Web: web.Options{
			Address: c.String("listen"), Cert: c.String("tls-cert"), Key: c.String("tls-key"),
			Hosts:         c.StringSlice("host"),
			RatePerSecond: rate, Version: p.Version, Console: !c.Bool("no-console"), Named: named(env, p.Getenv),
		},
		Phone: phone.Options{Address: c.String("phone"), Cert: c.String("phone-tls-cert"),
			Key: c.String("phone-tls-key")},
		OTLP: traces, OTLPTexts: c.Bool("otlp-texts"),
		Hello: p.hello,
	})
	if err == nil && wasInterrupted(c.Context) {
		return stoppedOnTerminal(p)
	}
	return err
}

// hello writes the first line of a daemon.
func (p *Program) hello(h daemon.Hello) error {
	if !p.text() {
		return writeLine(p.Out, h)
	}
	w := p.people(p.Out, p.OutTerminal)
	w.Printf("Serving %s as %s. Stop with Ctrl-C.\n", h.Database, h.Instance)
	if h.Listening != "" {
		w.Printf("Tools: %s/mcp, commands: /v1/commands/NAME, health: /healthz /readyz /metrics\n", h.Listening)
	}
	if h.Phone != "" {
		w.Printf("App for phones: %s\n", h.Phone)
	}
	if h.OTLP != "" {
		w.Printf("Traces: sent to %s\n", h.OTLP)
	}
	return w.Err()
}
