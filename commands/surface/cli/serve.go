package cli

import (
	"fmt"
	"syscall"

	urfave "github.com/urfave/cli/v2"
)

// serveCommand returns the command that runs the daemon: the daemon runs the schedules, wakes up at every
// notification, and answers health checks.
func serveCommand(p *Program) *urfave.Command {
	return &urfave.Command{
		Name: "serve", Usage: "Run the daemon: deliver, retry, clean up as scheduled, and start agents",
		Description: "Runs until SIGTERM or Ctrl-C, finishes the deliveries that are in progress, and exits within 10 seconds. The exit status is 0 after\n" +
			"SIGTERM and 130 after Ctrl-C. Several daemons can use one database. To see the scheduled commands that the daemon runs, run\n" +
			"`mailroom schedule list`. If an agent was added with --start, the daemon starts the agent when messages arrive for it. The session\n" +
			"of the agent continues when the daemon stops.\n\n" +
			"With --listen, the daemon also serves the console, a web page that `mailroom console` opens, unless you give --no-console. From\n" +
			"other machines, the console requires TLS: give --tls-cert and --tls-key, or use a proxy and give its name with --host.\n\n" +
			"With --phone, the daemon serves the phone app, on which a person answers questions. Phones require HTTPS: use a proxy, or give\n" +
			"--phone-tls-cert and --phone-tls-key. To set the address that the phones use, run `mailroom setting set signal.url\n" +
			"https://NAME`. The daemon rejects requests for other names.\n\n" +
			"With --otlp, or with OTEL_EXPORTER_OTLP_ENDPOINT in the environment, the daemon sends spans to an OpenTelemetry receiver: one for each\n" +
			"command and one for each event of a message. It uses OTLP over HTTP with JSON. The spans contain names, IDs, types, and statuses. With\n" +
			"--otlp-texts, they also contain texts. For details, see docs/opentelemetry.md.\n\nExamples:\n\n    mailroom serve --listen 127.0.0.1:9464\n    mailroom serve --phone 127.0.0.1:8420\n    mailroom serve --otlp http://localhost:4318",
		Flags: []urfave.Flag{
			&urfave.StringFlag{Name: "listen",
				Usage: "`ADDRESS` of the endpoints /mcp, /v1, /healthz, /readyz, and /metrics; port 0 picks a free port"},
			&urfave.StringFlag{Name: "tls-cert", Usage: "`FILE` with the TLS certificate of the endpoints (PEM)"},
			&urfave.StringFlag{Name: "tls-key", Usage: "`FILE` with the key of the TLS certificate (PEM)"},
			&urfave.BoolFlag{Name: "plain-http", DisableDefaultText: true,
				Usage: "accept connections from other machines without TLS, for use behind a proxy that has a certificate"},
			&urfave.StringFlag{Name: "socket", DefaultText: "next to the database file",
				Usage: "`PATH` of a socket that also serves the endpoints, for containers that mount the socket; off disables the socket"},
			&urfave.StringFlag{Name: "socket-group", Usage: "`GROUP` that can connect to the socket, in addition to this user"},
			&urfave.StringSliceFlag{Name: "host",
				Usage: "another `NAME` that clients use to reach the endpoints, in addition to the address; can be repeated"},
			&urfave.BoolFlag{Name: "no-console",
				Usage:              "do not serve the console at the address of the endpoints",
				DisableDefaultText: true},
			&urfave.StringFlag{Name: "rate", Usage: "maximum number of requests per second for each token", Value: "200",
				DefaultText: "200"},
			&urfave.StringFlag{Name: "phone",
				Usage: "`ADDRESS` of the phone app, separate from --listen; port 0 picks a free port"},
			&urfave.StringFlag{Name: "phone-tls-cert",
				Usage: "`FILE` with the TLS certificate of the phone app (PEM); omit it if the daemon is behind an HTTPS proxy"},
			&urfave.StringFlag{Name: "phone-tls-key", Usage: "`FILE` with the key of the phone app's TLS certificate (PEM)"},
			&urfave.StringFlag{Name: "otlp",
				Usage:       "`URL` of an OpenTelemetry receiver for traces; off disables traces",
				DefaultText: "OTEL_EXPORTER_OTLP_ENDPOINT"},
			&urfave.BoolFlag{Name: "otlp-texts", Usage: "also send payloads, error texts, and the output of transports"},
		},
		Action: func(c *urfave.Context) error {
			err := p.serve(c)
			if stoppedBy(c.Context) == syscall.SIGTERM && isStop(c.Context, err) {
				return nil // it was told to stop during startup
			}
			return err
		},
	}
}

// stoppedOnTerminal ends a command that runs until Ctrl-C. On a terminal, it prints that the command has stopped.
func stoppedOnTerminal(p *Program) error {
	if p.ErrTerminal {
		fmt.Fprint(p.Err, "\nmailroom: stopped\n")
	}
	return interruptedStatus
}
