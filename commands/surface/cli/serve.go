package cli

import (
	"fmt"
	"syscall"

	urfave "github.com/urfave/cli/v2"
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
			&urfave.BoolFlag{Name: "plain-http", DisableDefaultText: true,
				Usage: "beyond this machine listen without TLS, since a proxy in front has a certificate"},
			&urfave.StringFlag{Name: "socket", DefaultText: "beside the file of the database",
				Usage: "`PATH` of a socket at which the endpoints are served, too, for containers into which it is mounted; off has none"},
			&urfave.StringFlag{Name: "socket-group", Usage: "`GROUP` whose members may connect to the socket, besides this user"},
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

// stoppedOnTerminal is the end of a command that goes on until Ctrl-C. Whoever has typed that is told that it has
// ended.
func stoppedOnTerminal(p *Program) error {
	if p.ErrTerminal {
		fmt.Fprint(p.Err, "\nmailroom: stopped\n")
	}
	return interruptedStatus
}
