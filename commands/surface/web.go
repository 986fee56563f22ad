package surface

import (
	"context"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"mailroom/commands"
	"mailroom/commands/surface/listener"
	"mailroom/orchestrator"
)

// maxBody is how many bytes the body of a request may have: the largest message, and room for the rest.
const maxBody = orchestrator.MaxPayload + 512<<10

// webBounds are how much clients may ask at once, and how long they may take.
type webBounds struct {
	listener.Bounds
	requests int           // under way at the same time, waits included; a token may have a quarter of them
	peer     time.Duration // between two looks whether who asked is still there
}

var usualBounds = webBounds{Bounds: listener.Usual, requests: 4096, peer: time.Second}

// webOptions say where and how the endpoints are served.
type webOptions struct {
	listen        string
	cert, key     string        // files; both or neither
	hosts         []string      // names under which clients reach a daemon that listens beyond loopback
	ratePerSecond int           // requests that one token may make
	progressEvery time.Duration // between two signs of life of a tool that waits; 0 is toolProgressEvery
	bounds        webBounds     // left out: usualBounds
}

// web serves a daemon's endpoints: health and metrics for whoever is on this machine, commands, events and tools for
// whoever shows a token.
type web struct {
	*listener.Server
	env      commands.Env // its caller is set for each request
	options  webOptions
	handler  http.Handler
	slots    chan struct{}
	rates    listener.Rates
	failures *rate.Limiter       // requests without a valid token
	bodies   *semaphore.Weighted // bytes of large bodies under way
	streams  listener.Rates      // of events
}

// listenWeb binds the address and serves until close. ctx ends the requests under way.
func listenWeb(ctx context.Context, env commands.Env, o webOptions, m *metrics, version string) (*web, error) {
	if o.bounds == (webBounds{}) {
		o.bounds = usualBounds
	}
	server, err := listener.Open(ctx, listener.Options{
		Name: "endpoints", Address: o.listen, AddressFlag: "listen", Cert: o.cert, Key: o.key, CertFlag: "tls-cert", KeyFlag: "tls-key",
		Bounds: o.bounds.Bounds, Connections: listener.Share(2), ConnContext: withPeer, Log: env.Log,
	})
	if err != nil {
		return nil, err
	}
	w := &web{
		Server: server, env: env, options: o, slots: make(chan struct{}, o.bounds.requests),
		rates: listener.Rates{PerSecond: o.ratePerSecond}, failures: rate.NewLimiter(20, 100),
		bodies: semaphore.NewWeighted(maxBodies),
	}
	w.warn()
	w.handler = listener.Patient(o.bounds.Bounds, w.guard(w.routes(m, version)))
	w.Serve(w.handler)
	return w, nil
}

// warn says what is risky about the address.
func (w *web) warn() {
	if !w.Loopback && w.options.cert == "" {
		w.env.Log.Warn("tokens and messages travel unencrypted: give --tls-cert and --tls-key, or put a proxy with TLS in front", "listen", w.options.listen)
	}
}

// routes are the endpoints.
func (w *web) routes(m *metrics, version string) http.Handler {
	mux := http.NewServeMux()
	readiness := &glance[struct{}]{
		name: "readiness", log: w.env.Log, within: readyWithin,
		look: func(ctx context.Context) (struct{}, error) { return struct{}{}, w.env.Router.Ready(ctx) },
	}
	handle(mux, "GET", "/healthz", http.HandlerFunc(healthy))
	handle(mux, "GET", "/readyz", w.local(func(rw http.ResponseWriter, r *http.Request) { ready(rw, r, readiness) }))
	handle(mux, "GET", "/metrics", w.local(m.handler().ServeHTTP))
	w.routeCommands(mux, version)
	handle(mux, "GET", "/v1/events", w.authenticated(w.events))
	w.routeTools(mux, version)
	mux.HandleFunc("/", nothingAt)
	return mux
}

// handle serves a path for one method, and refuses the others.
func handle(mux *http.ServeMux, method, path string, h http.Handler) {
	listener.Handle(mux, path, listener.Methods{method: h})
}

// close ends the endpoints; nil has none.
func (w *web) close() {
	if w != nil {
		w.Close()
	}
}
