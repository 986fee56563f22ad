package surface

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/sync/semaphore"
	"golang.org/x/time/rate"

	"mailroom/commands"
	"mailroom/orchestrator"
)

// Bounds of the size of a request.
const (
	maxBody   = orchestrator.MaxPayload + 512<<10 // bytes of its body: the largest message, and room for the rest
	maxHeader = 16 << 10
)

// webBounds are how much clients may ask at once, and how long they may take.
type webBounds struct {
	requests int           // under way at the same time, waits included; a token may have a quarter of them
	header   time.Duration // to send the header of a request
	body     time.Duration // to send its body
	answer   time.Duration // to take a piece of an answer once it is there
	peer     time.Duration // between two looks whether who asked is still there
}

var usualBounds = webBounds{requests: 4096, header: 5 * time.Second, body: 10 * time.Second, answer: 30 * time.Second, peer: time.Second}

// hangUpAfter is how long requests under way may take to end when the daemon stops. It needs the rest of its time for
// deliveries.
const hangUpAfter = time.Second

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
	env      commands.Env // its caller is set for each request
	options  webOptions
	loopback bool // it can be reached from this machine only
	server   *http.Server
	address  string // "http://127.0.0.1:40123"
	slots    chan struct{}
	rates    rates
	failures *rate.Limiter       // requests without a valid token
	bodies   *semaphore.Weighted // bytes of large bodies under way
	streams  rates               // of events
}

// listenWeb binds the address and serves until close. ctx ends the requests under way.
func listenWeb(ctx context.Context, env commands.Env, o webOptions, m *metrics, version string) (*web, error) {
	host, _, err := net.SplitHostPort(o.listen)
	if err != nil {
		return nil, &orchestrator.Error{Code: orchestrator.InvalidParams, Message: "listen", Err: err, Hint: "Write 127.0.0.1:PORT; port 0 picks a free one"}
	}
	if (o.cert == "") != (o.key == "") {
		return nil, orchestrator.Errorf(orchestrator.InvalidParams, "tls-cert and tls-key go together")
	}
	if o.bounds == (webBounds{}) {
		o.bounds = usualBounds
	}
	w := &web{
		env: env, options: o, loopback: isLoopback(host), slots: make(chan struct{}, o.bounds.requests),
		rates: rates{perSecond: o.ratePerSecond}, failures: rate.NewLimiter(20, 100),
		bodies: semaphore.NewWeighted(maxBodies),
	}
	listener, err := net.Listen("tcp", o.listen)
	if err != nil {
		return nil, &orchestrator.Error{Code: orchestrator.Unavailable, Message: "listening on " + o.listen, Err: err, Hint: "Choose another port; 0 picks a free one"}
	}
	w.address = "http://" + listener.Addr().String()
	if o.cert != "" {
		pair, err := tls.LoadX509KeyPair(o.cert, o.key)
		if err != nil {
			listener.Close()
			return nil, &orchestrator.Error{Code: orchestrator.InvalidParams, Message: "tls-cert and tls-key", Err: err}
		}
		listener = tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12})
		w.address = "https://" + listener.Addr().String()
	}
	w.warn(host)
	w.server = &http.Server{
		Handler: w.guard(w.routes(m, version)), ReadHeaderTimeout: o.bounds.header, IdleTimeout: time.Minute,
		MaxHeaderBytes: maxHeader, ErrorLog: slog.NewLogLogger(env.Log.Handler(), slog.LevelDebug),
		BaseContext: func(net.Listener) context.Context { return ctx }, ConnContext: withPeer, ConnState: crowd(mostConnections()),
	}
	orchestrator.GoSafe("endpoints", env.Log, func() {
		if err := w.server.Serve(listener); err != http.ErrServerClosed {
			env.Log.Error("the endpoints have stopped", "error", err)
		}
	})
	return w, nil
}

// warn says what is risky about the address.
func (w *web) warn(host string) {
	if !w.loopback && w.options.cert == "" {
		w.env.Log.Warn("tokens and messages travel unencrypted: give --tls-cert and --tls-key, or put a proxy with TLS in front", "listen", host)
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
	mux.Handle(method+" "+path, h)
	mux.HandleFunc(path, func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Allow", method)
		writeFailure(rw, http.StatusMethodNotAllowed, orchestrator.Errorf(orchestrator.InvalidParams, "%s does not go here", orchestrator.Clip(r.Method)).
			WithHint("Here goes %s", method))
	})
}

// writeFailure answers in document 004's form.
func writeFailure(rw http.ResponseWriter, status int, err error) {
	body, merr := commands.Marshal(commands.Failure{Err: err})
	if merr != nil {
		body = []byte(`{"success":false,"error":"internal"}`)
	}
	writeJSON(rw, status, body)
}

// writeJSON answers, and reports whether the answer could be handed over. It says how long the answer is, so that a client
// which has all of it need not wait for the end of the stream, and may go.
func writeJSON(rw http.ResponseWriter, status int, body []byte) error {
	rw.Header().Set("Content-Type", "application/json")
	rw.Header().Set("Cache-Control", "no-store")
	rw.Header().Set("X-Content-Type-Options", "nosniff")
	rw.Header().Set("Content-Length", strconv.Itoa(len(body)+1))
	rw.WriteHeader(status)
	if _, err := rw.Write(append(body, '\n')); err != nil {
		return err
	}
	return http.NewResponseController(rw).Flush()
}

// patientWriter gives a client so long to take each piece of an answer.
type patientWriter struct {
	http.ResponseWriter
	within time.Duration
}

// Write implements io.Writer.
func (w patientWriter) Write(p []byte) (int, error) {
	http.NewResponseController(w.ResponseWriter).SetWriteDeadline(time.Now().Add(w.within))
	return w.ResponseWriter.Write(p)
}

// Unwrap lets a response controller reach what is below.
func (w patientWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// close ends the endpoints; nil has none.
func (w *web) close() {
	if w == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), hangUpAfter)
	defer cancel()
	if w.server.Shutdown(ctx) != nil {
		w.server.Close()
	}
}
