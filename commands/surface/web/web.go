// Package web serves a daemon's endpoints over HTTP: commands, their description, and a stream of events, to whoever
// shows a token. It guards the endpoints of others, too, such as those of package mcp.
package web

import (
	"context"
	"crypto/tls"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"mailroom/commands"
	"mailroom/commands/surface/console"
	"mailroom/commands/surface/listener"
	"mailroom/commands/surface/remote"
	"mailroom/orchestrator"
	"mailroom/orchestrator/certificate"
)

// MaxBody is how many bytes the body of a request may have: the largest message, and room for the rest.
const MaxBody = orchestrator.MaxPayload + 512<<10

// bounds are how much clients may ask at once, and how long they may take.
type bounds struct {
	listener.Bounds
	Requests int           // under way at the same time, waits included; a token may have a quarter of them
	Peer     time.Duration // between two looks whether who asked is still there
}

var usualBounds = bounds{Bounds: listener.Usual, Requests: 4096, Peer: time.Second}

// Options say where and how the endpoints are served, and what else is served beside those of this package.
type Options struct {
	Address       string           // 127.0.0.1:PORT; port 0 picks a free one; "" has none
	Cert, Key     string           // files, PEM; both or neither
	Hosts         []string         // names under which clients reach a daemon that listens beyond loopback
	PlainHTTP     bool             // beyond loopback it makes no certificate for itself: a proxy in front has one
	State         string           // folder of the user's own, for that certificate
	Socket        *listener.Socket // which is served, too; nil is none
	RatePerSecond int              // requests that one token may make, at least 1
	Version       string           // of the program, for the description
	Console       bool             // the console's page is served, and lets people in
	Named         bool             // commands find the database only where --db names it, or in the folder of its project

	// Run runs a command line of another machine for a caller; nil runs none. See remote.Server.
	Run func(ctx context.Context, s *remote.Session, caller commands.Caller) int

	// Handlers by path. Those of Open and Local are asked with GET; those of WithToken with any method, and CallerOf
	// tells them who asks.
	Open      map[string]http.Handler // for everybody
	Local     map[string]http.Handler // for whoever is on this machine, and elsewhere for whoever shows a token
	WithToken map[string]http.Handler // for whoever shows a token

	bounds bounds // the zero value stands for usualBounds
}

// Server is what serves the endpoints.
type Server struct {
	*listener.Server
	env      commands.Env // its caller is set for each request
	options  Options
	handler  http.Handler
	slots    chan struct{}
	rates    listener.Rates
	failures *rate.Limiter       // requests without a valid token
	codes    *rate.Limiter       // attempts to log in to the console
	bodies   *semaphore.Weighted // bytes of large bodies under way
	streams  listener.Rates      // of events
	lines    *remote.Server
	joins    *rate.Limiter // failed attempts to join
	refused  *rate.Limiter // those that are traced
}

// Listen binds the address and serves until Close. ctx ends the requests under way. Errors: invalid_params,
// unavailable.
func Listen(ctx context.Context, env commands.Env, o Options) (*Server, error) {
	if o.bounds == (bounds{}) {
		o.bounds = usualBounds
	}
	of := listener.Options{
		Name: "endpoints", Address: o.Address, AddressFlag: "listen", Cert: o.Cert, Key: o.Key, CertFlag: "tls-cert",
		KeyFlag: "tls-key", Socket: o.Socket,
		Bounds: o.bounds.Bounds, Connections: listener.Share(2), ConnContext: withPeer, Log: env.Log,
	}
	if o.State != "" && !o.PlainHTTP {
		of.Certificate = func() (tls.Certificate, error) { return certificate.Own(o.State) }
	}
	server, err := listener.Open(ctx, of)
	if err != nil {
		return nil, err
	}
	w := &Server{
		Server: server, env: env, options: o, slots: make(chan struct{}, o.bounds.Requests),
		rates: listener.Rates{PerSecond: o.RatePerSecond}, failures: rate.NewLimiter(20, 100),
		codes:  rate.NewLimiter(20, 100),
		bodies: semaphore.NewWeighted(maxBodies),
		lines:  remote.NewServer(nil, ""), joins: rate.NewLimiter(20, 100), refused: rate.NewLimiter(rate.Every(time.Minute), 20),
	}
	if !w.Loopback && !w.Encrypted {
		env.Log.Warn("tokens and messages are not encrypted: put a TLS proxy in front of the daemon, or leave out --plain-http", "listen", o.Address)
		if o.Console && len(o.Hosts) == 0 {
			env.Log.Warn("the console is not served, because others could intercept its login. Leave out --plain-http, or add --host NAME for a TLS proxy in front of the daemon", "listen", o.Address)
			w.options.Console = false
		}
	}
	routes, err := w.routes()
	if err != nil {
		w.Close()
		return nil, err
	}
	w.handler = listener.Patient(o.bounds.Bounds, w.guard(routes))
	w.Serve(w.handler)
	return w, nil
}

// routes are the endpoints.
func (w *Server) routes() (http.Handler, error) {
	mux := http.NewServeMux()
	for path, h := range w.options.Open {
		handle(mux, "GET", path, h)
	}
	for path, h := range w.options.Local {
		handle(mux, "GET", path, w.local(h))
	}
	for path, h := range w.options.WithToken {
		mux.Handle(path, w.authenticated(h))
	}
	handle(mux, "POST", commandsPath+"{name}", w.authenticated(http.HandlerFunc(w.command)))
	handle(mux, "GET", "/v1/openapi.json", w.authenticated(http.HandlerFunc(w.description)))
	handle(mux, "GET", "/v1/events", w.authenticated(http.HandlerFunc(w.events)))
	handle(mux, "POST", joinPath, http.HandlerFunc(w.join))
	handle(mux, "POST", leavePath, w.authenticated(http.HandlerFunc(w.leave)))
	if w.options.Run != nil {
		handle(mux, "POST", remote.RunPath, w.admitted(http.HandlerFunc(w.run)))
		handle(mux, "POST", remote.WrittenPath+"{id}", w.admitted(http.HandlerFunc(w.lines.ServeWritten)))
	}
	if !w.options.Console {
		mux.HandleFunc("/", nothingAt)
		return mux, nil
	}
	listener.Handle(mux, SessionPath, listener.Methods{
		"POST": http.HandlerFunc(w.logIn), "GET": w.authenticated(http.HandlerFunc(w.whoAsks)),
		"DELETE": w.authenticated(http.HandlerFunc(w.logOut)),
	})
	handle(mux, "GET", proofPath, http.HandlerFunc(w.prove))
	mux.Handle(DeskPath+"/", w.desk())
	page, err := console.Handler(nothingAt)
	mux.Handle("/", page)
	return mux, err
}

// handle serves a path for one method, and refuses the others.
func handle(mux *http.ServeMux, method, path string, h http.Handler) {
	listener.Handle(mux, path, listener.Methods{method: h})
}
