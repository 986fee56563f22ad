package cli

import (
	"fmt"
	"math"
	"syscall"

	urfave "github.com/urfave/cli/v2"

	"mailroom/commands"
	"mailroom/commands/surface/daemon"
	"mailroom/commands/surface/phone"
	"mailroom/commands/surface/web"
	"mailroom/orchestrator"
	"mailroom/orchestrator/messages"
	"mailroom/tracing/otlp"
)

// serveCommand is the daemon: it runs the schedules, wakes up at every ring of the bell, and answers health checks.
func serveCommand(p *Program) *urfave.Command {
	return &urfave.Command{
		Name: "serve", Usage: "Run the daemon: deliver, retry, clean up as scheduled, and start agents",
		Description: "Runs until SIGTERM or Ctrl-C, finishes the deliveries under way and exits within 10 seconds, with status 0 after\n" +
			"SIGTERM and 130 after Ctrl-C. Several daemons\n" +
			"on one database do no harm. `mailroom schedule list` shows what it runs. An agent that was added with --start is\n" +
			"started when there are messages for it; its session goes on when the daemon stops.\n\n" +
			"With --listen it serves the console, too, a page for people that `mailroom console` opens, unless --no-console is given. Beyond\n" +
			"this machine the page wants TLS: --tls-cert and --tls-key, or a proxy in front that --host names.\n\n" +
			"With --phone it serves the app by which questions reach a person. Phones want HTTPS: put a proxy in front, or give\n" +
			"--phone-tls-cert and --phone-tls-key, and say under which address they come: `mailroom setting set signal.url\n" +
			"https://NAME`. Other names are refused.\n\n" +
			"With --otlp, or OTEL_EXPORTER_OTLP_ENDPOINT in the environment, it sends a span for each command and each event of a\n" +
			"message to an OpenTelemetry receiver, by OTLP over HTTP in JSON: names, ids, types and statuses, and no texts unless\n" +
			"--otlp-texts asks for them. docs/opentelemetry.md has the rest.\n\nExamples:\n\n    mailroom serve --listen 127.0.0.1:9464\n    mailroom serve --phone 127.0.0.1:8420\n    mailroom serve --otlp http://localhost:4318",
		Flags: []urfave.Flag{
			&urfave.StringFlag{Name: "listen",
				Usage: "`ADDRESS` of the endpoints: /mcp, /v1, /healthz, /readyz and /metrics; port 0 picks a free one"},
			&urfave.StringFlag{Name: "tls-cert", Usage: "`FILE` with the certificate of the endpoints, PEM"},
			&urfave.StringFlag{Name: "tls-key", Usage: "`FILE` with its key, PEM"},
			&urfave.StringSliceFlag{Name: "host",
				Usage: "`NAME` by which clients reach the endpoints, besides the address; may be repeated"},
			&urfave.BoolFlag{Name: "no-console",
				Usage:              "serve no page for people at the address of the endpoints, see mailroom console",
				DisableDefaultText: true},
			&urfave.StringFlag{Name: "rate", Usage: "requests per second that one token may make", Value: "200",
				DefaultText: "200"},
			&urfave.StringFlag{Name: "phone",
				Usage: "`ADDRESS` of the app for phones, a listener of its own; port 0 picks a free one"},
			&urfave.StringFlag{Name: "phone-tls-cert",
				Usage: "`FILE` with the certificate of the app, PEM; without it a proxy with HTTPS stands in front"},
			&urfave.StringFlag{Name: "phone-tls-key", Usage: "`FILE` with its key, PEM"},
			&urfave.StringFlag{Name: "otlp",
				Usage:       "`URL` of an OpenTelemetry receiver to which traces are sent; off sends none",
				DefaultText: "OTEL_EXPORTER_OTLP_ENDPOINT"},
			&urfave.BoolFlag{Name: "otlp-texts", Usage: "send payloads, error texts and what transports put out, too"},
		},
		Action: func(c *urfave.Context) error {
			err := p.serve(c)
			if stoppedBy(c.Context) == syscall.SIGTERM && isStop(c.Context, err) {
				return nil // it was told to end while it was still starting
			}
			return err
		},
	}
}

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

// stoppedOnTerminal is the end of a command that goes on until Ctrl-C. Whoever has typed that is told that it has
// ended.
func stoppedOnTerminal(p *Program) error {
	if p.ErrTerminal {
		fmt.Fprint(p.Err, "\nmailroom: stopped\n")
	}
	return interruptedStatus
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
