package surface

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"mailroom/commands"
	"mailroom/orchestrator"
)

// guard refuses what no honest client sends: a Host or an Origin of somewhere else, as a page in a browser does whose name
// was rebound to this address, and a path that leads astray.
func (w *web) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		http.NewResponseController(rw).SetReadDeadline(time.Now().Add(w.options.bounds.body))
		rw = patientWriter{rw, w.options.bounds.answer}
		switch {
		case !w.knownHost(r.Host):
			writeFailure(rw, http.StatusForbidden, orchestrator.Errorf(orchestrator.PermissionDenied, "this is not %s", orchestrator.Clip(r.Host)).
				WithHint("Start the daemon with --host NAME for each name that it is reached by"))
		case !sameOrigin(r):
			writeFailure(rw, http.StatusForbidden, orchestrator.Errorf(orchestrator.PermissionDenied, "a page of another origin may not ask here"))
		case r.URL.Path != path.Clean(r.URL.Path): // the mux would send the client elsewhere
			nothingAt(rw, r)
		default:
			next.ServeHTTP(rw, r)
		}
	})
}

// nothingAt answers where no endpoint is.
func nothingAt(rw http.ResponseWriter, r *http.Request) {
	writeFailure(rw, http.StatusNotFound, orchestrator.Errorf(orchestrator.NotFound, "there is nothing at %s", orchestrator.Clip(r.URL.Path)).
		WithHint("POST /v1/commands/NAME runs a command, GET /v1/openapi.json describes them, /mcp serves tools"))
}

// hostOf is the name in a Host header, "" when the header is none.
func hostOf(header string) string {
	host, port, err := net.SplitHostPort(header)
	if err != nil {
		if strings.HasPrefix(header, "[") && strings.HasSuffix(header, "]") {
			return header[1 : len(header)-1]
		}
		return header
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return ""
	}
	return host
}

// knownHost reports whether a Host header names this daemon.
func (w *web) knownHost(header string) bool {
	host := hostOf(header)
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
	return strings.EqualFold(host, "localhost") || (ip != nil && ip.IsLoopback())
}

// sameOrigin reports whether a request comes from no page in a browser, or from one of this daemon's own.
func sameOrigin(r *http.Request) bool {
	for _, site := range r.Header.Values("Sec-Fetch-Site") {
		if site != "same-origin" && site != "none" {
			return false
		}
	}
	origins := r.Header.Values("Origin")
	if len(origins) == 0 {
		return true
	}
	origin, err := url.Parse(origins[0])
	return len(origins) == 1 && err == nil && strings.EqualFold(origin.Host, r.Host)
}

// local serves whoever is on this machine, and elsewhere whoever shows a token. What a proxy on this machine hands on
// comes from elsewhere.
func (w *web) local(next http.HandlerFunc) http.Handler {
	withToken := w.authenticated(next)
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.RemoteAddr)
		handedOn := r.Header.Get("Forwarded") != "" || r.Header.Get("X-Forwarded-For") != "" || !isLoopback(hostOf(r.Host))
		if err == nil && isLoopback(host) && w.loopback && !handedOn {
			next(rw, r)
			return
		}
		withToken.ServeHTTP(rw, r)
	})
}

// asker is who sent a request, and the token that says so.
type asker struct {
	commands.Caller
	secret, token string // and the token's id
}

type askerKey struct{}

// callerOf is who asks: the agent of the token, in the session that the URL names.
func callerOf(ctx context.Context) commands.Caller {
	a, _ := ctx.Value(askerKey{}).(asker)
	return a.Caller
}

// tokenOf is the id of the token that a request showed.
func tokenOf(ctx context.Context) string {
	a, _ := ctx.Value(askerKey{}).(asker)
	return a.token
}

// stillValid reports by its error that the token of a request was revoked, or ran out, while the request was under way.
func (w *web) stillValid(ctx context.Context) error {
	a, _ := ctx.Value(askerKey{}).(asker)
	_, err := w.env.Router.Authenticate(ctx, a.secret)
	return err
}

// authenticated serves who shows a valid token, if there is room, and reads the body. The token is the caller, whatever
// else the request says. Source: contract, "Who is asking".
func (w *web) authenticated(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		a, err := w.authenticate(rw, r)
		if err != nil {
			return
		}
		if !w.rates.enter(a.token, max(1, cap(w.slots)/4)) {
			tooMany(rw, "too many requests under way with this token")
			return
		}
		select {
		case w.slots <- struct{}{}:
			defer func() {
				w.rates.leave(a.token)
				<-w.slots
			}()
		default:
			w.rates.leave(a.token)
			rw.Header().Set("Retry-After", "1")
			writeFailure(rw, http.StatusServiceUnavailable, orchestrator.Errorf(orchestrator.Busy, "%d requests are under way, which is the limit", cap(w.slots)).
				WithHint("Wait a second"))
			return
		}
		release, ok := w.readBody(rw, r)
		defer release()
		if !ok {
			return
		}
		ctx, stop := whileThere(context.WithValue(r.Context(), askerKey{}, a), w.options.bounds.peer)
		defer stop()
		next(rw, r.WithContext(ctx))
	})
}

// authenticate finds out who asks. On an error it has answered.
func (w *web) authenticate(rw http.ResponseWriter, r *http.Request) (a asker, err error) {
	a.secret, err = secretOf(r)
	var token orchestrator.Token
	if err == nil {
		token, err = w.env.Router.Authenticate(r.Context(), a.secret)
	}
	switch {
	case orchestrator.CodeOf(err) == orchestrator.Unauthenticated:
		if !w.failures.Allow() {
			return a, tooMany(rw, "too many requests without a valid token")
		}
		rw.Header().Set("WWW-Authenticate", `Bearer realm="mailroom"`)
	case err == nil && !w.rates.allow(token.ID):
		return a, tooMany(rw, "too many requests with this token")
	case err == nil:
		a.Caller = commands.Caller{Name: token.Agent, Admin: token.Admin, Remote: true}
		a.token = token.ID
		a.Session, err = sessionOf(r)
	}
	if err != nil {
		writeFailure(rw, commands.HTTPStatus(err), err)
	}
	return a, err
}

// secretOf reads the token of a request.
func secretOf(r *http.Request) (string, error) {
	headers := r.Header.Values("Authorization")
	if len(headers) != 1 {
		return "", orchestrator.Errorf(orchestrator.Unauthenticated, "the request has %d Authorization headers; one is needed", len(headers)).
			WithHint("Send `Authorization: Bearer TOKEN`; `mailroom agent token NAME` issues one")
	}
	scheme, secret, ok := strings.Cut(headers[0], " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return "", orchestrator.Errorf(orchestrator.Unauthenticated, "the Authorization header holds no bearer token").
			WithHint("Send `Authorization: Bearer TOKEN`; `mailroom agent token NAME` issues one")
	}
	return strings.TrimSpace(secret), nil
}

// sessionOf reads the session that the URL names.
func sessionOf(r *http.Request) (string, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return "", orchestrator.Errorf(orchestrator.InvalidParams, "the query of the URL cannot be read: %s", orchestrator.Clip(err.Error()))
	}
	switch sessions := query["session"]; {
	case len(sessions) > 1:
		return "", orchestrator.Errorf(orchestrator.InvalidParams, "session: it is given twice")
	case len(sessions) == 1 && sessions[0] != "":
		return orchestrator.CheckName("session", sessions[0])
	}
	return orchestrator.DefaultSession, nil
}

// tooMany answers 429.
func tooMany(rw http.ResponseWriter, why string) error {
	err := orchestrator.Errorf(orchestrator.Busy, "%s", why).WithHint("Wait a second")
	rw.Header().Set("Retry-After", "1")
	writeFailure(rw, http.StatusTooManyRequests, err)
	return err
}

// Bounds of the memory that bodies may take, in bytes. A body is held, several times over, while its request waits.
const (
	maxBodies = 64 << 20 // of all large ones under way
	smallBody = 16 << 10 // what counts for nothing
)

// readBody reads the whole body, so that a slow one holds nothing but its own request, and what follows may take its time.
// ok is false when it has answered. Call release when the request ends.
func (w *web) readBody(rw http.ResponseWriter, r *http.Request) (release func(), ok bool) {
	weight := r.ContentLength
	if weight < 0 || weight > maxBody {
		weight = maxBody
	}
	if weight <= smallBody {
		return func() {}, readAll(rw, r)
	}
	if !w.bodies.TryAcquire(weight) {
		rw.Header().Set("Retry-After", "1")
		writeFailure(rw, http.StatusServiceUnavailable, orchestrator.Errorf(orchestrator.Busy, "the requests under way have %d bytes, which is the limit", maxBodies).
			WithHint("Wait a second"))
		return func() {}, false
	}
	return func() { w.bodies.Release(weight) }, readAll(rw, r)
}

func readAll(rw http.ResponseWriter, r *http.Request) bool {
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		writeFailure(rw, http.StatusUnsupportedMediaType, orchestrator.Errorf(orchestrator.InvalidParams, "the body is encoded as %s", orchestrator.Clip(coding)).
			WithHint("Send it as it is"))
		return false
	}
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
	http.NewResponseController(rw).SetReadDeadline(time.Time{})
	return true
}

// rates bounds how often each token may ask, and how much at once. Only valid tokens come here, so that there are as many
// entries as tokens.
type rates struct {
	perSecond int
	mu        sync.Mutex
	limits    map[string]*rate.Limiter
	underWay  map[string]int
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

// enter counts a request that allow has let in, unless there are so many under way.
func (r *rates) enter(token string, most int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.underWay[token] >= most {
		return false
	}
	if r.underWay == nil {
		r.underWay = map[string]int{}
	}
	r.underWay[token]++
	return true
}

func (r *rates) leave(token string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.underWay[token]--
}
