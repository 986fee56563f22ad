// Package daemon implements `mailroom serve`: the schedules, the endpoints, the app for phones, the start of agents,
// the export of traces, and health checks and metrics.
package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"time"

	"mailroom/commands"
	"mailroom/commands/surface/listener"
	"mailroom/commands/surface/mcp"
	"mailroom/commands/surface/phone"
	"mailroom/commands/surface/web"
	"mailroom/orchestrator"
	"mailroom/orchestrator/daemons"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/exports"
	"mailroom/orchestrator/person"
	"mailroom/orchestrator/watchdog"
	"mailroom/tracing/otlp"
)

// exitWithin is how long a daemon may take to stop, counted from the signal. A running delivery attempt has 6 s to
// end, and is then given back.
const exitWithin = 9 * time.Second

// Options configures a daemon.
type Options struct {
	Web       web.Options   // no endpoints without an address or a socket; the daemon adds its own handlers
	SocketMay bool          // continue without the socket if it cannot be created
	Phone     phone.Options // no app for phones without an address
	OTLP      otlp.Options  // no traces are sent without a URL
	OTLPTexts bool          // also send payloads, error texts and the output of transports
	Hello     func(Hello) error
}

// Hello is the argument of Options.Hello, which is called once the daemon can be reached. An error ends the daemon.
type Hello struct {
	Listening string `json:"listening"` // address of the endpoints; "" if there is none
	Socket    string `json:"socket"`    // path of the socket for the endpoints; "" if there is none
	Phone     string `json:"phone"`     // address of the app for phones; "" if there is none
	OTLP      string `json:"otlp"`      // receiver of traces, without secrets; "" if there is none
	Database  string `json:"database"`
	Instance  string `json:"instance"`
	PID       int    `json:"pid"`
}

// Run runs a daemon on the engine of env until ctx ends or the scheduler fails, and closes the engine. The daemon
// stops within exitWithin, even if a delivery is still running. env.Caller is the caller of scheduled commands. Run
// returns errors of the start, and ErrOutdated if a newer program takes the database over.
func Run(ctx context.Context, env commands.Env, o Options) error {
	d := &daemon{env: env, log: env.Log, engine: env.Engine, o: o}
	if err := d.engine.Create(ctx); err != nil {
		d.engine.Close()
		return err
	}
	d.metrics = newMetrics(d.engine.Ledger, o.Web.Version, d.log)
	return d.run(ctx)
}

// listen opens the endpoints and the listener for phones, if configured. When ctx ends, the running requests end.
func (d *daemon) listen(ctx context.Context) (err error) {
	o := d.o.Web
	switch {
	case o.Address == "" && (o.Cert != "" || o.Key != "" || len(o.Hosts) > 0 || o.PlainHTTP):
		return orchestrator.Errorf(orchestrator.InvalidParams, "`tls-cert`, `tls-key`, `host`, and `plain-http` require `listen`")
	case o.Address != "" || o.Socket != nil:
		err = d.listenWeb(ctx)
	}
	if err != nil {
		return err
	}
	switch app := d.o.Phone; {
	case app.Address != "":
		if err := person.Here(ctx, d.engine.Ledger); err != nil {
			return err
		}
		d.phone, err = phone.Listen(ctx, d.engine.Ledger, d.log, app)
	case app.Cert != "" || app.Key != "":
		return orchestrator.Errorf(orchestrator.InvalidParams,
			"`phone-tls-cert` and `phone-tls-key` require `phone`")
	}
	return err
}

// listenWeb opens the endpoints. If the socket cannot be created and is optional, it opens them without the socket.
func (d *daemon) listenWeb(ctx context.Context) (err error) {
	d.web, err = web.Listen(ctx, d.env, d.endpoints())
	if d.o.Web.Socket == nil || !d.o.SocketMay || orchestrator.CodeOf(err) != orchestrator.Unavailable && orchestrator.CodeOf(err) != orchestrator.InvalidParams {
		return err
	}
	level := slog.LevelWarn
	// Another daemon uses this database, or the path is too long.
	if errors.Is(err, listener.ErrInUse) || orchestrator.CodeOf(err) == orchestrator.InvalidParams {
		level = slog.LevelInfo
	}
	d.log.Log(ctx, level, "this daemon has no socket", "error", err)
	if d.o.Web.Socket = nil; d.o.Web.Address == "" {
		return nil
	}
	d.web, err = web.Listen(ctx, d.env, d.endpoints())
	return err
}

// endpoints returns the options of package web, with the handlers for tools, health and metrics.
func (d *daemon) endpoints() web.Options {
	o := d.o.Web
	o.Open = map[string]http.Handler{"/healthz": http.HandlerFunc(healthy)}
	o.Local = map[string]http.Handler{"/readyz": readiness(d.engine.Ledger, d.log), "/metrics": d.metrics.handler()}
	o.WithToken = mcp.NewServer(d.env, o.Version).Handlers()
	return o
}

// daemon is a running `mailroom serve`.
type daemon struct {
	log     *slog.Logger
	engine  *delivery.Engine
	env     commands.Env
	o       Options
	metrics *metrics
	web     *web.Server
	phone   *phone.Phone
}

// run serves until ctx ends or the scheduler fails.
func (d *daemon) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := d.listen(ctx); err != nil {
		d.hangUp()
		d.engine.Close()
		return err
	}
	hello := d.hello()
	unattend := daemons.Attend(ctx, d.engine.Ledger, hello.Listening)
	if err := d.o.Hello(hello); err != nil {
		cancel()
		unattend()
		return errors.Join(err, d.close())
	}
	d.log.Info("serving", "database", hello.Database, "instance", hello.Instance, "listening", hello.Listening, "phone",
		hello.Phone, "otlp", hello.OTLP)
	ended := make(chan error, 1)
	orchestrator.GoSafe("daemon", d.log, func() {
		failure := errors.New("the daemon panicked; see the stack trace on standard error")
		defer func() {
			cancel()
			ended <- failure
		}()
		unwatch := watchdog.Start(ctx, d.engine.Ledger, d.log)
		unsweep := person.Start(ctx, d.engine.Ledger, d.log)
		unloop := startLoops(ctx, d.engine.Ledger, d.log)
		unexport := func() {}
		if d.o.OTLP.URL != "" {
			unexport = exports.Start(ctx, d.engine.Ledger, d.log, d.o.OTLP, d.o.OTLPTexts, d.o.Web.Version)
		}
		err := newScheduler(d.env, d.metrics).run(ctx)
		if ctx.Err() != nil && err != nil {
			d.log.Info("stopped while starting", "error", err)
			err = nil
		}
		cancel()
		unattend()
		unwatch()
		unsweep()
		unloop()
		unexport()
		failure = errors.Join(err, d.close())
	})
	<-ctx.Done()
	d.log.Info("stopping after the claimed deliveries are finished")
	select {
	case err := <-ended:
		return err
	case <-time.After(exitWithin):
		d.log.Error("a delivery did not stop in time; when its lease expires, the message is delivered again")
		return nil
	}
}

// hello returns the addresses of the daemon.
func (d *daemon) hello() Hello {
	hello := Hello{Database: d.engine.Path(), Instance: d.engine.Instance(), PID: os.Getpid(), OTLP: d.o.OTLP.Target()}
	if d.web != nil {
		hello.Listening, hello.Socket = d.web.Address, d.web.Socket
	}
	if d.phone != nil {
		hello.Phone = d.phone.Address
	}
	return hello
}

// close waits for running deliveries, removes the daemon from the list of daemons, and closes its resources.
func (d *daemon) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), exitWithin)
	defer cancel()
	d.hangUp()
	d.engine.Drain()
	if err := daemons.Leave(ctx, d.engine.Ledger); err != nil {
		d.log.Warn("cannot remove the daemon from the list of running daemons", "error", err)
	}
	return d.engine.Close()
}

// hangUp closes the listeners.
func (d *daemon) hangUp() {
	if d.web != nil {
		d.web.Close()
	}
	if d.phone != nil {
		d.phone.Close()
	}
}
