// Package phone is the daemon's listener for phones: the files of the web app, and what the app asks. Nothing else of the
// daemon can be reached through it.
package phone

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"sync"

	"golang.org/x/time/rate"

	"mailroom/commands/surface/listener"
	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/person"
	"mailroom/orchestrator/questions"
)

// Bounds of what is asked. Whoever shows no token shares one rate with all others who show none; whoever tries codes
// shares another, so that neither keeps devices from asking.
const (
	maxBody          = 64 << 10 // bytes
	strangersPerSec  = 5
	strangersAtOnce  = 20
	devicePerSecond  = 20
	deviceAtOnce     = 16 // requests under way
	connectionsShare = 8  // one part in so many of the process's files
)

// Options say where is listened.
type Options struct {
	Address   string // 127.0.0.1:PORT; port 0 picks a free one
	Cert, Key string // files, PEM; both or neither
	Bounds    listener.Bounds
}

// Phone is the listener. It is safe for concurrent use.
type Phone struct {
	*listener.Server
	service
	origin  *http.CrossOriginProtection
	handler http.Handler
	moved   sync.Once // that signal has moved to another host is logged once
}

// service is what devices ask, wherever it is served.
type service struct {
	kind      string // of the devices that are served: the token of a desk is worth nothing without a session of the console
	ledger    *ledger.Ledger
	log       *slog.Logger
	strangers *rate.Limiter // requests without a valid token
	codes     *rate.Limiter // attempts to pair
	devices   listener.Rates
}

// newService returns what devices of a kind ask.
func newService(kind string, l *ledger.Ledger, log *slog.Logger) service {
	return service{
		kind: kind, ledger: l, log: log, strangers: rate.NewLimiter(strangersPerSec, strangersAtOnce), codes: rate.NewLimiter(strangersPerSec, strangersAtOnce),
		devices: listener.Rates{PerSecond: devicePerSecond},
	}
}

// Listen binds the address and serves until Close. ctx ends the requests under way. Errors: invalid_params, unavailable.
func Listen(ctx context.Context, l *ledger.Ledger, log *slog.Logger, o Options) (*Phone, error) {
	p, err := open(ctx, l, log, o)
	if err == nil {
		p.Serve(p.handler)
	}
	return p, err
}

// open does what Listen does, but does not begin to answer.
func open(ctx context.Context, l *ledger.Ledger, log *slog.Logger, o Options) (*Phone, error) {
	if o.Bounds == (listener.Bounds{}) {
		o.Bounds = listener.Usual
	}
	files, err := listener.ReadFiles(Files())
	if err != nil {
		return nil, err
	}
	server, err := listener.Open(ctx, listener.Options{
		Name: "phone", Address: o.Address, AddressFlag: "phone", Cert: o.Cert, Key: o.Key, CertFlag: "phone-tls-cert", KeyFlag: "phone-tls-key",
		Bounds: o.Bounds, Connections: listener.Share(connectionsShare), Log: log,
	})
	if err != nil {
		return nil, err
	}
	p := &Phone{Server: server, service: newService(questions.DeviceApp, l, log), origin: http.NewCrossOriginProtection()}
	p.warn(ctx, o)
	p.handler = listener.Patient(o.Bounds, p.guard(p.routes(files)))
	return p, nil
}

// warn says why a phone will not get through.
func (p *Phone) warn(ctx context.Context, o Options) {
	conf, err := p.ledger.Configuration(ctx)
	switch {
	case err != nil:
		p.log.Warn("cannot read the setting signal.url", "error", err)
	case conf.Settings.SignalURL == "" && !p.Loopback:
		p.log.Warn("phone connections are refused; set signal.url to the address at which phones reach this daemon", "phone", o.Address)
	}
	if !p.Loopback && o.Cert == "" {
		p.log.Warn("connections from phones are not encrypted; pass --phone-tls-cert and --phone-tls-key, or use a TLS proxy", "phone", o.Address)
	}
}

// guard gives every answer its headers, and refuses requests that no phone sends: for another host, as from a page whose own name
// was made to resolve to this address (DNS rebinding), and changes that a page of another origin asks for.
func (p *Phone) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		defer p.recovered(rw)
		listener.Strict(rw.Header(), "worker-src 'self'", "trusted-types mailroom")
		switch {
		case !p.knownHost(r):
			listener.WriteFailure(rw, http.StatusForbidden, orchestrator.Errorf(orchestrator.PermissionDenied, "unknown host name %s", orchestrator.Clip(r.Host)).
				WithHint("To set the address that phones use, run `mailroom setting set signal.url https://NAME`"))
		case p.origin.Check(r) != nil:
			listener.WriteFailure(rw, http.StatusForbidden, orchestrator.Errorf(orchestrator.PermissionDenied, "pages of another origin cannot send requests to this daemon"))
		case listener.Astray(r):
			nothingAt(rw, r)
		default:
			if err := p.stillHere(r.Context()); err != nil {
				listener.WriteFailure(rw, http.StatusServiceUnavailable, err)
				return
			}
			next.ServeHTTP(rw, r)
		}
	})
}

// stillHere returns an error, conflict, once signal has moved to another host, where the keys of new questions are.
func (p *Phone) stillHere(ctx context.Context) error {
	err := person.Here(ctx, p.ledger)
	var own *orchestrator.Error
	if !errors.As(err, &own) || own.Code != orchestrator.Conflict {
		return nil // what cannot be read now is told by whoever needs it
	}
	p.moved.Do(func() {
		p.log.Warn("phone connections are refused because the phone service (signal) has moved to another host", "error", err, "hint", "Restart this daemon without --phone, start the daemon on that host with --phone, and point signal.url to that host")
	})
	return err
}

// recovered is deferred: a bug costs one request its answer, and stands in the log.
func (p *Phone) recovered(rw http.ResponseWriter) {
	if fault := recover(); fault == http.ErrAbortHandler {
		panic(fault) // no bug: whoever says so wants the connection cut
	} else if fault != nil {
		p.log.Error("panic while handling a request from a phone; this is a bug", "panic", fault, "stack", string(debug.Stack()))
		listener.WriteFailure(rw, http.StatusInternalServerError, orchestrator.Errorf(orchestrator.Internal, "a bug in Mailroom").WithHint("See the daemon's log"))
	}
}

// knownHost reports whether the Host header of a request names this listener: by the name in signal.url, which is looked up each
// time so that a change of it works at once, or on its own machine as that.
func (p *Phone) knownHost(r *http.Request) bool {
	host := listener.HostOf(r.Host)
	if p.Loopback && listener.IsLoopback(host) {
		return true
	}
	conf, err := p.ledger.Configuration(r.Context())
	if err != nil {
		return false
	}
	own, err := url.Parse(conf.Settings.SignalURL)
	return err == nil && own.Hostname() != "" && strings.EqualFold(own.Hostname(), host)
}

// nothingAt answers where there is nothing.
var nothingAt = listener.NothingAt("Open the app at /")

// routes are what the app needs. Its page is at / and at /pair, where the link of a pairing leads.
func (p *Phone) routes(files map[string]listener.File) http.Handler {
	mux := http.NewServeMux()
	for name, f := range files {
		paths := []string{"/" + name}
		if name == listener.Index {
			paths = []string{"/{$}", "/pair"}
		}
		for _, path := range paths {
			listener.Handle(mux, path, listener.Methods{"GET": f})
		}
	}
	listener.Handle(mux, "/api/pair", listener.Methods{"POST": http.HandlerFunc(p.pairing)})
	listener.Handle(mux, "/api/once/{id}/{option}/{token}", listener.Methods{"POST": http.HandlerFunc(p.button)})
	listener.Handle(mux, "/api/device", listener.Methods{"GET": p.waiting("", p.device), "DELETE": p.waiting("phone unpair", p.unpair)})
	listener.Handle(mux, "/api/subscription", listener.Methods{
		"PUT": p.waiting("phone subscribe", p.subscribe), "DELETE": p.waiting("phone unsubscribe", p.unsubscribe),
	})
	p.reading(mux, "/api")
	mux.HandleFunc("/", nothingAt)
	return mux
}

// reading serves, below a path, what approved devices read and answer.
func (s *service) reading(mux *http.ServeMux, path string) {
	listener.Handle(mux, path+"/signals", listener.Methods{"GET": s.active("", s.signals)})
	listener.Handle(mux, path+"/signals/{id}", listener.Methods{"GET": s.active("", s.signal)})
	word := "phone"
	if s.kind == questions.DeviceDesk {
		word = "desk"
	}
	listener.Handle(mux, path+"/questions/{id}/answer", listener.Methods{"POST": s.active(word+" answer", s.answer)})
}
