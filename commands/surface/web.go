package surface

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"mailroom/commands"
	"mailroom/orchestrator"
)

// Bounds of what a client may ask of the endpoints.
const (
	maxBody     = orchestrator.MaxPayload + 512<<10 // bytes of a request's body: the largest message, and room for the rest
	maxHeader   = 16 << 10
	maxRequests = 4096 // under way at the same time, waits included

	headerWithin = 5 * time.Second  // to send the header of a request
	bodyWithin   = 10 * time.Second // to send its body
	answerWithin = 30 * time.Second // to take an answer once it is there
)

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
	failures *rate.Limiter // requests without a valid token
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
	w := &web{
		env: env, options: o, loopback: isLoopback(host), slots: make(chan struct{}, maxRequests),
		rates: rates{perSecond: o.ratePerSecond}, failures: rate.NewLimiter(20, 100),
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
		Handler: w.guard(w.routes(m, version)), ReadHeaderTimeout: headerWithin, ReadTimeout: 0, IdleTimeout: time.Minute,
		MaxHeaderBytes: maxHeader, ErrorLog: slog.NewLogLogger(env.Log.Handler(), slog.LevelDebug),
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	guarded(env.Log, "endpoints", func() {
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
	mux.HandleFunc("GET /healthz", healthy)
	mux.Handle("GET /readyz", w.local(func(rw http.ResponseWriter, r *http.Request) { ready(rw, r, readiness) }))
	mux.Handle("GET /metrics", w.local(m.handler().ServeHTTP))
	w.routeCommands(mux, version)
	mux.Handle("GET /v1/events", w.authenticated(w.events))
	w.routeTools(mux, version)
	mux.HandleFunc("/", func(rw http.ResponseWriter, r *http.Request) {
		writeFailure(rw, http.StatusNotFound, orchestrator.Errorf(orchestrator.NotFound, "there is nothing at %s", clip(r.URL.Path)).
			WithHint("POST /v1/commands/NAME runs a command, GET /v1/openapi.json describes them, /mcp serves tools"))
	})
	return mux
}

// guard refuses what no honest client sends: a Host or an Origin of somewhere else, as a page in a browser does whose name
// was rebound to this address, and more requests at once than there is room for.
func (w *web) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		control := http.NewResponseController(rw)
		control.SetReadDeadline(time.Now().Add(bodyWithin))
		control.SetWriteDeadline(time.Now().Add(bodyWithin + answerWithin))
		if !w.knownHost(r.Host) {
			writeFailure(rw, http.StatusForbidden, orchestrator.Errorf(orchestrator.PermissionDenied, "this is not %s", clip(r.Host)).
				WithHint("Start the daemon with --host NAME for each name that it is reached by"))
			return
		}
		if !sameOrigin(r) {
			writeFailure(rw, http.StatusForbidden, orchestrator.Errorf(orchestrator.PermissionDenied, "a page of another origin may not ask here"))
			return
		}
		select {
		case w.slots <- struct{}{}:
			defer func() { <-w.slots }()
		default:
			rw.Header().Set("Retry-After", "1")
			writeFailure(rw, http.StatusServiceUnavailable, orchestrator.Errorf(orchestrator.Busy, "%d requests are under way, which is the limit", maxRequests))
			return
		}
		next.ServeHTTP(rw, r)
	})
}

// knownHost reports whether a Host header names this daemon.
func (w *web) knownHost(header string) bool {
	host, _, err := net.SplitHostPort(header)
	if err != nil {
		host = strings.Trim(header, "[]")
	}
	if isLoopback(host) {
		return true
	}
	for _, name := range w.options.hosts {
		if strings.EqualFold(name, host) {
			return true
		}
	}
	if w.loopback {
		return false
	}
	own, err := os.Hostname()
	return net.ParseIP(host) != nil || (err == nil && strings.EqualFold(own, host))
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || (ip != nil && ip.IsLoopback())
}

// sameOrigin reports whether a request comes from no page in a browser, or from one of this daemon's own.
func sameOrigin(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "same-origin", "none":
	default:
		return false
	}
	origins := r.Header.Values("Origin")
	if len(origins) == 0 {
		return true
	}
	origin, err := url.Parse(origins[0])
	return len(origins) == 1 && err == nil && origin.Host != "" && strings.EqualFold(origin.Host, r.Host)
}

// local serves whoever is on this machine, and elsewhere whoever shows a token.
func (w *web) local(next http.HandlerFunc) http.Handler {
	guarded := w.authenticated(next)
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil && isLoopback(host) && w.loopback {
			next(rw, r)
			return
		}
		guarded.ServeHTTP(rw, r)
	})
}

type callerKey struct{}

// callerOf is who asks: the agent of the token, in the session that the URL names.
func callerOf(ctx context.Context) commands.Caller {
	caller, _ := ctx.Value(callerKey{}).(commands.Caller)
	return caller
}

// authenticated serves who shows a valid token, and reads the body. The token is the caller, whatever else the request
// says. Source: contract, "Who is asking".
func (w *web) authenticated(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		caller, err := w.authenticate(rw, r)
		if err != nil {
			return
		}
		if !readBody(rw, r) {
			return
		}
		next(rw, r.WithContext(context.WithValue(r.Context(), callerKey{}, caller)))
	})
}

// authenticate finds out who asks. On an error it has answered.
func (w *web) authenticate(rw http.ResponseWriter, r *http.Request) (caller commands.Caller, err error) {
	token, err := w.tokenOf(r)
	if err != nil {
		if orchestrator.CodeOf(err) != orchestrator.Unauthenticated {
			writeFailure(rw, commands.HTTPStatus(err), err)
			return caller, err
		}
		if !w.failures.Allow() {
			return caller, tooMany(rw, "too many requests without a valid token")
		}
		rw.Header().Set("WWW-Authenticate", `Bearer realm="mailroom"`)
		writeFailure(rw, http.StatusUnauthorized, err)
		return caller, err
	}
	if !w.rates.allow(token.ID) {
		return caller, tooMany(rw, "too many requests with this token")
	}
	caller = commands.Caller{Name: token.Agent, Admin: token.Admin, Session: "default"}
	if session := r.URL.Query().Get("session"); session != "" {
		if caller.Session, err = orchestrator.CheckName("session", session); err != nil {
			writeFailure(rw, commands.HTTPStatus(err), err)
			return caller, err
		}
	}
	return caller, nil
}

// tokenOf reads the token of a request.
func (w *web) tokenOf(r *http.Request) (orchestrator.Token, error) {
	headers := r.Header.Values("Authorization")
	if len(headers) != 1 {
		return orchestrator.Token{}, orchestrator.Errorf(orchestrator.Unauthenticated, "the request has %d Authorization headers; one is needed", len(headers)).
			WithHint("Send `Authorization: Bearer TOKEN`; `mailroom agent token NAME` issues one")
	}
	scheme, secret, ok := strings.Cut(headers[0], " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return orchestrator.Token{}, orchestrator.Errorf(orchestrator.Unauthenticated, "the Authorization header holds no bearer token").
			WithHint("Send `Authorization: Bearer TOKEN`")
	}
	return w.env.Router.Authenticate(r.Context(), strings.TrimSpace(secret))
}

// tooMany answers 429.
func tooMany(rw http.ResponseWriter, why string) error {
	err := orchestrator.Errorf(orchestrator.Busy, "%s", why).WithHint("Wait a second")
	rw.Header().Set("Retry-After", "1")
	writeFailure(rw, http.StatusTooManyRequests, err)
	return err
}

// readBody reads the whole body, so that a slow one holds nothing but its own request, and what follows may take its time.
func readBody(rw http.ResponseWriter, r *http.Request) bool {
	body, err := io.ReadAll(http.MaxBytesReader(rw, r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		writeFailure(rw, http.StatusRequestEntityTooLarge, orchestrator.Errorf(orchestrator.InvalidParams, "the body has more than %d bytes", maxBody))
		return false
	case err != nil:
		writeFailure(rw, http.StatusRequestTimeout, &orchestrator.Error{Code: orchestrator.InvalidParams, Message: "the body did not come", Err: err})
		return false
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	control := http.NewResponseController(rw)
	control.SetReadDeadline(time.Time{})
	control.SetWriteDeadline(time.Time{})
	return true
}

// writeFailure answers in document 004's form.
func writeFailure(rw http.ResponseWriter, status int, err error) {
	body, merr := commands.Marshal(commands.Failure{Err: err})
	if merr != nil {
		body = []byte(`{"success":false,"error":"internal"}`)
	}
	writeJSON(rw, status, body)
}

// writeJSON answers, and reports whether the answer could be handed over.
func writeJSON(rw http.ResponseWriter, status int, body []byte) error {
	rw.Header().Set("Content-Type", "application/json")
	rw.Header().Set("Cache-Control", "no-store")
	rw.Header().Set("X-Content-Type-Options", "nosniff")
	rw.WriteHeader(status)
	control := http.NewResponseController(rw)
	control.SetWriteDeadline(time.Now().Add(answerWithin))
	if _, err := rw.Write(append(body, '\n')); err != nil {
		return err
	}
	return control.Flush()
}

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

// rates bounds how often each token may ask. Only valid tokens come here, so that there are as many entries as tokens.
type rates struct {
	perSecond int
	mu        sync.Mutex
	limits    map[string]*rate.Limiter
}

func (r *rates) allow(token string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.limits == nil {
		r.limits = map[string]*rate.Limiter{}
	}
	if r.limits[token] == nil {
		r.limits[token] = rate.NewLimiter(rate.Limit(r.perSecond), 2*r.perSecond)
	}
	return r.limits[token].Allow()
}

// clip shortens what a client sent, for a message.
func clip(s string) string {
	if len(s) > 64 {
		return strings.ToValidUTF8(s[:64], "") + "..."
	}
	return s
}
