package surface

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"mailroom/commands"
	"mailroom/commands/surface/phone"
	"mailroom/orchestrator"
	"mailroom/orchestrator/person"
	"mailroom/orchestrator/watchdog"
)

// exitWithin is how long a daemon may take to stop, counted from the signal: an attempt under way has 6 s to end, then it
// is given back.
const exitWithin = 9 * time.Second

// Listening is the first line that a daemon writes to standard output.
type Listening struct {
	Listening string `json:"listening"` // address of its endpoints; "" without --listen
	Phone     string `json:"phone"`     // address of the app for phones; "" without --phone
	Database  string `json:"database"`
	Instance  string `json:"instance"`
	PID       int    `json:"pid"`
}

// ServeCommand is the daemon: it runs the schedules, wakes up at every ring of the bell, and answers health checks.
func ServeCommand(p *Program) *cli.Command {
	return &cli.Command{
		Name: "serve", Usage: "Run the daemon: deliver, retry, clean up as scheduled, and start agents", HideHelpCommand: true, OnUsageError: usageError,
		Description: "Runs until SIGTERM or SIGINT, finishes the deliveries under way and exits within 10 seconds. Several daemons\n" +
			"on one database do no harm. `mailroom schedule list` shows what it runs. An agent that was added with --start is\n" +
			"started when there are messages for it; its session goes on when the daemon stops.\n\n" +
			"With --phone it serves the app by which questions reach a person. Phones want HTTPS: put a proxy in front, or give\n" +
			"--phone-tls-cert and --phone-tls-key, and say under which address they come: `mailroom setting set signal.url\n" +
			"https://NAME`. Other names are refused.\n\nExamples:\n\n    mailroom serve --listen 127.0.0.1:9464\n    mailroom serve --phone 127.0.0.1:8420",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "listen", Usage: "`ADDRESS` of the endpoints: /mcp, /v1, /healthz, /readyz and /metrics; port 0 picks a free one"},
			&cli.StringFlag{Name: "tls-cert", Usage: "`FILE` with the certificate of the endpoints, PEM"},
			&cli.StringFlag{Name: "tls-key", Usage: "`FILE` with its key, PEM"},
			&cli.StringSliceFlag{Name: "host", Usage: "`NAME` by which clients reach the endpoints, besides the address; may be repeated"},
			&cli.IntFlag{Name: "rate", Usage: "requests per second that one token may make", Value: 200},
		}, phoneFlags()...),
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return p.failWith(c, orchestrator.Errorf(orchestrator.InvalidParams, "serve takes no arguments: %q", c.Args().First()))
			}
			if err := p.serve(c); err != nil {
				return p.failWith(c, err)
			}
			return nil
		},
	}
}

func (p *Program) serve(c *cli.Context) error {
	log, err := p.logger(c)
	if err != nil {
		return err
	}
	router, err := p.open(c, "", log)
	if err != nil {
		return err
	}
	d := &daemon{p: p, log: log, router: router}
	d.env = commands.Env{Router: router, Caller: commands.Caller{Admin: true, Session: orchestrator.DefaultSession}, Log: log, Catalogue: p.Catalogue}
	if _, err := router.Create(c.Context); err != nil {
		router.Close()
		return err
	}
	d.metrics = newMetrics(router, p.Version, log)
	return d.run(c)
}

// listen opens the endpoints, if there are to be any. ctx ends the requests under way.
func (d *daemon) listen(ctx context.Context, c *cli.Context) (err error) {
	o := webOptions{
		listen: c.String("listen"), cert: c.String("tls-cert"), key: c.String("tls-key"), hosts: c.StringSlice("host"),
		ratePerSecond: c.Int("rate"),
	}
	switch {
	case o.ratePerSecond < 1:
		return orchestrator.Errorf(orchestrator.InvalidParams, "rate: %d is out of bounds: at least 1", o.ratePerSecond)
	case o.listen != "":
		d.web, err = listenWeb(ctx, d.env, o, d.metrics, d.p.Version)
	case o.cert != "" || o.key != "" || len(o.hosts) > 0:
		return orchestrator.Errorf(orchestrator.InvalidParams, "tls-cert, tls-key and host say nothing without listen")
	}
	if err == nil {
		err = d.listenForPhones(ctx, c)
	}
	return err
}

// daemon is a running `mailroom serve`.
type daemon struct {
	p       *Program
	log     *slog.Logger
	router  *orchestrator.Router
	env     commands.Env
	metrics *metrics
	web     *web
	phone   *phone.Phone
}

// run serves until the context ends, or until the scheduler cannot go on. It then stops within exitWithin, whatever a
// delivery under way does.
func (d *daemon) run(c *cli.Context) error {
	ctx, cancel := context.WithCancel(c.Context)
	defer cancel()
	if err := d.listen(ctx, c); err != nil {
		d.hangUp()
		d.router.Close()
		return err
	}
	hello := d.hello()
	if err := d.router.Beat(ctx, hello.Listening); err != nil {
		d.log.Warn("the daemon could not be recorded", "error", err)
	}
	if err := d.p.printer().hello(hello); err != nil {
		return errors.Join(err, d.close())
	}
	d.noticeNames(ctx)
	d.log.Info("serving", "database", hello.Database, "instance", hello.Instance, "listening", hello.Listening, "phone", hello.Phone)
	ended := make(chan error, 1)
	orchestrator.GoSafe("daemon", d.log, func() {
		failure := errors.New("the daemon panicked; standard error has the stack")
		defer func() {
			cancel()
			ended <- failure
		}()
		var beats sync.WaitGroup
		beats.Add(1)
		orchestrator.GoSafe("heartbeat", d.log, func() {
			defer beats.Done()
			d.beat(ctx, hello.Listening)
		})
		unwatch := watchdog.Start(ctx, d.router, d.log)
		unsweep := person.Start(ctx, d.router, d.log)
		err := newScheduler(d.env, d.metrics).run(ctx)
		if ctx.Err() != nil && err != nil {
			d.log.Info("asked to stop while it was starting", "error", err)
			err = nil
		}
		cancel()
		beats.Wait()
		unwatch()
		unsweep()
		failure = errors.Join(err, d.close())
	})
	<-ctx.Done()
	d.log.Info("stopping: finishing what is claimed")
	deadline := time.NewTimer(exitWithin)
	defer deadline.Stop()
	select {
	case err := <-ended:
		return err
	case <-deadline.C:
		d.log.Error("a delivery does not end; its lease will run out and the message is due again")
		return nil
	}
}

// hello says where the daemon can be reached.
func (d *daemon) hello() Listening {
	hello := Listening{Database: d.router.Path(), Instance: d.router.Instance(), PID: os.Getpid()}
	if d.web != nil {
		hello.Listening = d.web.Address
	}
	if d.phone != nil {
		hello.Phone = d.phone.Address
	}
	return hello
}

// close waits for deliveries under way, signs the daemon off and closes what it has open.
func (d *daemon) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), exitWithin)
	defer cancel()
	d.hangUp()
	d.router.Drain()
	if err := d.router.Leave(ctx); err != nil {
		d.log.Warn("the daemon could not be signed off", "error", err)
	}
	return d.router.Close()
}

// hangUp closes what is listened on.
func (d *daemon) hangUp() {
	var closing sync.WaitGroup
	for name, end := range map[string]func(){"close endpoints": d.web.close, "close phone": d.phone.Close} {
		closing.Add(1)
		orchestrator.GoSafe(name, d.log, func() {
			defer closing.Done()
			end()
		})
	}
	closing.Wait()
}

// beat tells the database that the daemon is there, until ctx ends.
func (d *daemon) beat(ctx context.Context, listening string) {
	ticker := time.NewTicker(orchestrator.Heartbeat)
	defer ticker.Stop()
	var trouble orchestrator.Trouble
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if err := d.router.Beat(ctx, listening); ctx.Err() == nil && trouble.Changed(err) && err != nil {
				d.log.Warn("the daemon could not be recorded", "error", err)
			}
		}
	}
}

// hello writes the first line of a daemon.
func (o *printer) hello(h Listening) error {
	if !o.text {
		return o.line(h)
	}
	w := o.p.people(o.p.Out, o.p.OutTerminal)
	w.Printf("Serving %s as %s. Stop with Ctrl-C.\n", h.Database, h.Instance)
	if h.Listening != "" {
		w.Printf("Tools: %s/mcp, commands: /v1/commands/NAME, health: /healthz /readyz /metrics\n", h.Listening)
	}
	if h.Phone != "" {
		w.Printf("App for phones: %s\n", h.Phone)
	}
	return w.Err()
}

// noticeNames says of the names that are always there if somebody else has one of them from before they were reserved.
func (d *daemon) noticeNames(ctx context.Context) {
	list, err := d.router.BuiltIns(ctx)
	if err != nil {
		d.log.Warn("it is not known whether somebody has a reserved name", "error", err)
	}
	for _, a := range list {
		if a.Note != "" {
			d.log.Warn(a.Note, "do", "mailroom doctor")
		}
	}
}
