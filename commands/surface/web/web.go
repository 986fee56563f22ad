// Package web serves the endpoints of a daemon over HTTP: commands, their description, and a stream of events.
// Clients authenticate with a token. The package also protects the endpoints of other packages, such as mcp.
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

// MaxBody is the maximum size of a request body, in bytes: the largest message and room for the other parameters.
const MaxBody = orchestrator.MaxPayload + 512<<10

// bounds limits the load of clients and the time that they may take.
type bounds struct {
	listener.Bounds
	Requests int           // concurrent requests, including waiting ones; a token may use a quarter of them
	Peer     time.Duration // interval of checks whether the client is still connected
}

var usualBounds = bounds{Bounds: listener.Usual, Requests: 4096, Peer: time.Second}

// Options configures the endpoints, and what else is served beside them.
type Options struct {
	Address       string           // 127.0.0.1:PORT; port 0 picks a free one; "" for none
	Cert, Key     string           // PEM files; both or neither
	Hosts         []string         // names under which clients reach a daemon that listens beyond loopback
	PlainHTTP     bool             // create no own certificate beyond loopback: a proxy in front has one
	State         string           // the user's own folder, for that certificate
	Socket        *listener.Socket // an additional socket to serve; nil for none
	RatePerSecond int              // maximum rate of requests per token, at least 1
	Version       string           // of the program, for the description
	Console       bool             // serve the console's page and its logins
	Named         bool             // commands need --db to find the database, except in the folder of its project

	// Run runs a command line of another machine for a caller. If it is nil, no lines run. See remote.Server.
	Run func(ctx context.Context, s *remote.Session, caller commands.Caller) int

	// Handlers by path. Those in Open and Local handle GET requests. Those in WithToken handle any method, and
	// CallerOf returns the caller of their requests.
	Open      map[string]http.Handler // without authentication
	Local     map[string]http.Handler // from this machine without a token, from elsewhere with a token
	WithToken map[string]http.Handler // with a token

	bounds bounds // the zero value means usualBounds
}

// Server serves the endpoints.
type Server struct {
	*listener.Server
	env      commands.Env // the caller is set for each request
	options  Options
	handler  http.Handler
	slots    chan struct{}
	rates    listener.Rates
	failures *rate.Limiter       // limits requests without a valid token
	codes    *rate.Limiter       // limits attempts to log in to the console
	bodies   *semaphore.Weighted // bytes of the large bodies of running requests
	streams  listener.Rates      // limits event streams
	lines    *remote.Server
	joins    *rate.Limiter // limits failed attempts to join
	refused  *rate.Limiter // limits traces of failed attempts to join
}

// Listen binds the address and serves until Close. When ctx ends, the running requests end. Listen returns
// invalid_params or unavailable on failure.
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

// routes returns the handler of all endpoints.
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

// handle serves a path for one method and refuses the others.
func handle(mux *http.ServeMux, method, path string, h http.Handler) {
	listener.Handle(mux, path, listener.Methods{method: h})
}
