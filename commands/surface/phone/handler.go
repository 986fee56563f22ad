// Package phone is the daemon's listener for phones. It serves the files of the web app and the app's requests, and
// no other part of the daemon.
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

// Limits of requests. All clients without a token share one rate, and all clients that try codes share another, so
// that neither can block the devices.
const (
	maxBody          = 64 << 10 // bytes
	strangersPerSec  = 5
	strangersAtOnce  = 20
	devicePerSecond  = 20
	deviceAtOnce     = 16 // concurrent requests
	connectionsShare = 8  // divisor of the number of files that the process may open
)

// Options configures the listener.
type Options struct {
	Address   string // 127.0.0.1:PORT; port 0 picks a free one
	Cert, Key string // PEM files; both or neither
	Bounds    listener.Bounds
}

// Phone is the listener. It is safe for concurrent use.
type Phone struct {
	*listener.Server
	service
	origin  *http.CrossOriginProtection
	handler http.Handler
	moved   sync.Once // for logging only once that signal has moved to another host
}

// service handles the requests of devices, for phones and for the console.
type service struct {
	kind      string // kind of device served: the token of a desk is valid only with a session of the console
	ledger    *ledger.Ledger
	log       *slog.Logger
	strangers *rate.Limiter // limits requests without a valid token
	codes     *rate.Limiter // limits attempts to pair
	devices   listener.Rates
}

// newService returns a service for devices of a kind.
func newService(kind string, l *ledger.Ledger, log *slog.Logger) service {
	return service{
		kind: kind, ledger: l, log: log, strangers: rate.NewLimiter(strangersPerSec, strangersAtOnce), codes: rate.NewLimiter(strangersPerSec, strangersAtOnce),
		devices: listener.Rates{PerSecond: devicePerSecond},
	}
}

// Listen binds the address and serves until Close. When ctx ends, the running requests end. Listen returns
// invalid_params or unavailable on failure.
func Listen(ctx context.Context, l *ledger.Ledger, log *slog.Logger, o Options) (*Phone, error) {
	p, err := open(ctx, l, log, o)
	if err == nil {
		p.Serve(p.handler)
	}
	return p, err
}

// open binds the address and prepares the handler, but does not begin to serve.
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

// warn logs configuration problems that keep phones from connecting.
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

// guard sets the headers of every answer and refuses requests that no phone sends: requests for another host, as from
// a page whose own name was made to resolve to this address (DNS rebinding), and changes requested by a page of
// another origin.
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

// stillHere returns conflict after signal has moved to another host, which has the keys of new questions.
func (p *Phone) stillHere(ctx context.Context) error {
	err := person.Here(ctx, p.ledger)
	var own *orchestrator.Error
	if !errors.As(err, &own) || own.Code != orchestrator.Conflict {
		return nil // a handler that needs the database reports the error
	}
	p.moved.Do(func() {
		p.log.Warn("phone connections are refused because the phone service (signal) has moved to another host", "error", err, "hint", "Restart this daemon without --phone, start the daemon on that host with --phone, and point signal.url to that host")
	})
	return err
}

// recovered, when deferred, recovers a panic of one request: it logs the bug and answers with an error.
func (p *Phone) recovered(rw http.ResponseWriter) {
	if fault := recover(); fault == http.ErrAbortHandler {
		panic(fault) // not a bug: the handler closes the connection this way
	} else if fault != nil {
		p.log.Error("panic while handling a request from a phone; this is a bug", "panic", fault, "stack", string(debug.Stack()))
		listener.WriteFailure(rw, http.StatusInternalServerError, orchestrator.Errorf(orchestrator.Internal, "a bug in Mailroom").WithHint("See the daemon's log"))
	}
}

// knownHost reports whether the Host header of a request names this listener. That is the name in signal.url, which
// is read for each request so that changes take effect at once, or a loopback name if the listener is on loopback.
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

// nothingAt answers requests for unknown paths.
var nothingAt = listener.NothingAt("Open the app at /")

// routes returns the handler of the app. The app's page is at / and at /pair, to which the pairing link leads.
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

// reading adds the routes, below a path, for reading and answering by approved devices.
func (s *service) reading(mux *http.ServeMux, path string) {
	listener.Handle(mux, path+"/signals", listener.Methods{"GET": s.active("", s.signals)})
	listener.Handle(mux, path+"/signals/{id}", listener.Methods{"GET": s.active("", s.signal)})
	word := "phone"
	if s.kind == questions.DeviceDesk {
		word = "desk"
	}
	listener.Handle(mux, path+"/questions/{id}/answer", listener.Methods{"POST": s.active(word+" answer", s.answer)})
}
