// Package daemon is what `mailroom serve` runs: the schedules, and beside them the endpoints, the app for phones, the
// starts of agents, the export of traces, and what tells whether all that is well.
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

// exitWithin is how long a daemon may take to stop, counted from the signal: an attempt under way has 6 s to end, then
// it is given back.
const exitWithin = 9 * time.Second

// Options say where a daemon can be reached.
type Options struct {
	Web       web.Options   // without an address and a socket there are no endpoints; what else is served the daemon fills in
	SocketMay bool          // where there can be no socket, it goes on without
	Phone     phone.Options // without an address there is no app for phones
	OTLP      otlp.Options  // without a URL no traces are sent
	OTLPTexts bool          // payloads, error texts and what transports put out are sent, too
	Hello     func(Hello) error
}

// Hello is what a daemon tells Options.Hello once it can be reached. An error ends it.
type Hello struct {
	Listening string `json:"listening"` // address of its endpoints; "" has none
	Socket    string `json:"socket"`    // path of the socket at which the same is served; "" has none
	Phone     string `json:"phone"`     // address of the app for phones; "" has none
	OTLP      string `json:"otlp"`      // where traces are sent, without what may be secret; "" is nowhere
	Database  string `json:"database"`
	Instance  string `json:"instance"`
	PID       int    `json:"pid"`
}

// Run runs a daemon on the engine of env, which it closes, until ctx ends or the scheduler cannot go on. It then stops
// within exitWithin, whatever a delivery under way does. env.Caller is who runs the schedules. Errors: those of the
// start; one with ErrOutdated when a newer program takes the database over.
func Run(ctx context.Context, env commands.Env, o Options) error {
	d := &daemon{env: env, log: env.Log, engine: env.Engine, o: o}
	if err := d.engine.Create(ctx); err != nil {
		d.engine.Close()
		return err
	}
	d.metrics = newMetrics(d.engine.Ledger, o.Web.Version, d.log)
	return d.run(ctx)
}

// listen opens the endpoints and the listener for phones, if there are to be any. ctx ends the requests under way.
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

// listenWeb opens the endpoints; without their socket where there can be none and need not be one.
func (d *daemon) listenWeb(ctx context.Context) (err error) {
	d.web, err = web.Listen(ctx, d.env, d.endpoints())
	if d.o.Web.Socket == nil || !d.o.SocketMay || orchestrator.CodeOf(err) != orchestrator.Unavailable && orchestrator.CodeOf(err) != orchestrator.InvalidParams {
		return err
	}
	level := slog.LevelWarn
	if errors.Is(err, listener.ErrInUse) || orchestrator.CodeOf(err) == orchestrator.InvalidParams { // another daemon of this database; a long path
		level = slog.LevelInfo
	}
	d.log.Log(ctx, level, "this daemon has no socket", "error", err)
	if d.o.Web.Socket = nil; d.o.Web.Address == "" {
		return nil
	}
	d.web, err = web.Listen(ctx, d.env, d.endpoints())
	return err
}

// endpoints are those of a daemon beside the ones of package web: tools, and how it is.
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

// run serves until ctx ends, or until the scheduler cannot go on.
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

// hello says where the daemon can be reached.
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

// close waits for deliveries under way, signs the daemon off and closes what it has open.
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

// hangUp closes what is listened on.
func (d *daemon) hangUp() {
	if d.web != nil {
		d.web.Close()
	}
	if d.phone != nil {
		d.phone.Close()
	}
}
