package web

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"mailroom/commands"
	"mailroom/commands/surface/listener"
	"mailroom/commands/surface/remote"
	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
)

// guard refuses requests that no honest client sends: with a foreign Host or Origin, as sent by a page in a browser
// whose own name was made to resolve to this address (DNS rebinding), or with a path that is not in its shortest
// form.
func (w *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch {
		case !w.knownHost(r.Host) && !forPlaces(r.URL.Path):
			listener.WriteFailure(rw, http.StatusForbidden,
				orchestrator.Errorf(orchestrator.PermissionDenied, "this daemon does not serve requests for the host name %s", orchestrator.Clip(r.Host)).
					WithHint("Start `mailroom serve` with --host NAME for each host name that clients use"))
		case !sameOrigin(r):
			listener.WriteFailure(rw, http.StatusForbidden,
				orchestrator.Errorf(orchestrator.PermissionDenied, "pages from another origin cannot send requests to this daemon"))
		case listener.Astray(r):
			nothingAt(rw, r)
		default:
			next.ServeHTTP(rw, r)
		}
	})
}

// forPlaces reports whether only programs request a path, with a code or a token that no page in a browser has. The
// Host is not checked for these paths, because an invitation may use a name that this daemon does not know, such as
// the name by which containers reach their host.
func forPlaces(path string) bool {
	return path == joinPath || path == leavePath || path == remote.RunPath || strings.HasPrefix(path, remote.WrittenPath)
}

// nothingAt answers requests for unknown paths.
var nothingAt = listener.NothingAt("To run a command, use POST /v1/commands/NAME. To get a description of the commands, use GET /v1/openapi.json. For tools, use /mcp")

// knownHost reports whether a Host header names this daemon.
func (w *Server) knownHost(header string) bool {
	host := listener.HostOf(header)
	if listener.IsLoopback(host) {
		return true
	}
	for _, name := range w.options.Hosts {
		if strings.EqualFold(name, host) {
			return true
		}
	}
	if w.Loopback {
		return false
	}
	own, err := os.Hostname()
	return net.ParseIP(host) != nil || (err == nil && strings.EqualFold(own, host))
}

// sameOrigin reports whether a request does not come from a page in a browser, or comes from a page of this daemon.
// It also permits other pages to open the console in a window of its own: the page itself contains no secrets, and
// `mailroom console` makes the browser open a file that leads to the console.
func sameOrigin(r *http.Request) bool {
	led := r.Method == http.MethodGet && r.URL.Path == "/" && r.Header.Get("Sec-Fetch-Mode") == "navigate" &&
		r.Header.Get("Sec-Fetch-Dest") == "document"
	for _, site := range r.Header.Values("Sec-Fetch-Site") {
		if site != "same-origin" && site != "none" && !led {
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

// local serves requests from this machine without a token, and other requests only with a valid token.
func (w *Server) local(next http.Handler) http.Handler {
	withToken := w.authenticated(next)
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.RemoteAddr)
		if err == nil && listener.IsLoopback(host) && w.Loopback && listener.IsLoopback(listener.HostOf(r.Host)) &&
			!handedOn(r) {
			next.ServeHTTP(rw, r)
			return
		}
		withToken.ServeHTTP(rw, r)
	})
}

// proxyHeaders lists headers that proxies add to the requests that they forward.
var proxyHeaders = []string{
	"Forwarded", "Via", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Port",
	"X-Forwarded-Server",
	"X-Real-IP", "X-Client-IP", "X-Cluster-Client-IP", "True-Client-IP", "CF-Connecting-IP", "Fastly-Client-IP",
	"Fly-Client-IP",
}

// handedOn reports whether a request came through a proxy. Such a request is untrusted, even if the proxy is on this
// machine. The presence of one of the headers suffices, since its value may be forged.
func handedOn(r *http.Request) bool {
	return slices.ContainsFunc(proxyHeaders, func(name string) bool { return len(r.Header.Values(name)) > 0 })
}

// asker is the sender of a request, as identified by its token.
type asker struct {
	commands.Caller
	ledger *ledger.Ledger
	secret string // the token from the request
	token  agents.Token
}

type askerKey struct{}

func askerOf(ctx context.Context) asker {
	a, _ := ctx.Value(askerKey{}).(asker)
	return a
}

// CallerOf returns the caller of a request with a token: the token's agent, in the session that the URL names. For a
// session of the console, the caller is the administrator, who sends and reads as the operator.
func CallerOf(ctx context.Context) commands.Caller { return askerOf(ctx).Caller }

// StillValid returns an error if the token of a request was revoked or has expired since the request began, which may
// be long ago. ctx is the context of the request.
func StillValid(ctx context.Context) error {
	a := askerOf(ctx)
	if a.token.ID == ownSocket {
		return nil
	}
	_, err := agents.Authenticate(ctx, a.ledger, a.secret)
	return err
}

// ownSocket is the token ID for this user's own processes that connect over the socket.
const ownSocket = "socket"

// authenticated serves requests with a valid token, if there is capacity, and reads the body first. Only the token
// determines the caller. Source: contract, "Who is asking".
func (w *Server) authenticated(next http.Handler) http.Handler {
	return w.admitted(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		release, ok := w.readBody(rw, r)
		defer release()
		if ok {
			next.ServeHTTP(rw, r)
		}
	}))
}

// admitted serves requests with a valid token, if there is capacity.
func (w *Server) admitted(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		a, err := w.authenticate(rw, r)
		if err != nil {
			return
		}
		if !w.rates.Enter(a.token.ID, max(1, cap(w.slots)/4)) {
			listener.TooMany(rw, "too many requests under way with this token")
			return
		}
		defer w.rates.Leave(a.token.ID)
		select {
		case w.slots <- struct{}{}:
			defer func() { <-w.slots }()
		default:
			listener.Full(rw, fmt.Sprintf("the limit of %d requests under way is reached", cap(w.slots)))
			return
		}
		ctx, stop := whileThere(context.WithValue(r.Context(), askerKey{}, a), w.options.bounds.Peer)
		defer stop()
		next.ServeHTTP(rw, r.WithContext(ctx))
	})
}

// authenticate identifies the sender of a request. On an error, it has already written the answer.
func (w *Server) authenticate(rw http.ResponseWriter, r *http.Request) (a asker, err error) {
	a.ledger = w.env.Ledger
	if uid, known := listener.UIDOf(r.Context()); known && uid == os.Getuid() && r.Header.Get("Authorization") == "" {
		a.token = agents.Token{ID: ownSocket, Agent: orchestrator.Operator, Admin: true}
		a.Caller = commands.Caller{Admin: true, Shell: true, Remote: true}
		a.Session, err = sessionOf(r)
		if err != nil {
			listener.WriteFailure(rw, commands.HTTPStatus(err), err)
		}
		return a, err
	}
	a.secret, err = listener.BearerOf(r, "Send `Authorization: Bearer TOKEN`. To get a token, run `mailroom agent token NAME`")
	if err == nil {
		a.token, err = agents.Authenticate(r.Context(), a.ledger, a.secret)
	}
	switch {
	case orchestrator.CodeOf(err) == orchestrator.Unauthenticated && !w.failures.Allow():
		return a, listener.TooMany(rw, "too many requests without a valid token")
	case err == nil && !w.rates.Allow(a.token.ID):
		return a, listener.TooMany(rw, "too many requests with this token")
	case err == nil:
		a.Caller = commands.Caller{Name: a.token.Agent, Admin: a.token.Admin, Remote: true}
		if a.token.Agent == orchestrator.Operator { // a session of the console acts like a shell without a name
			a.Name, a.Shell = "", true
		}
		a.Session, err = sessionOf(r)
	}
	if err != nil {
		listener.WriteFailure(rw, commands.HTTPStatus(err), err)
	}
	return a, err
}

// sessionOf returns the session that the URL names.
func sessionOf(r *http.Request) (string, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return "", orchestrator.Errorf(orchestrator.InvalidParams, "the query of the URL cannot be read: %s",
			orchestrator.Clip(err.Error()))
	}
	switch sessions := query["session"]; {
	case len(sessions) > 1:
		return "", orchestrator.Errorf(orchestrator.InvalidParams, "session: given twice")
	case len(sessions) == 1 && sessions[0] != "":
		return orchestrator.CheckName("session", sessions[0])
	}
	return orchestrator.DefaultSession, nil
}

// Limits of the memory for request bodies, in bytes. Several copies of a body are held while its request waits.
const (
	maxBodies = 64 << 20 // all running requests with large bodies
	smallBody = 16 << 10 // bodies up to this size do not count
)

// readBody reads the whole body before the request is handled, so that a slow body delays only its own request, and
// the handler may take its time. If ok is false, readBody has written an answer. The caller must call release when
// the request ends.
func (w *Server) readBody(rw http.ResponseWriter, r *http.Request) (release func(), ok bool) {
	weight := r.ContentLength
	if weight < 0 || weight > MaxBody {
		weight = MaxBody
	}
	if weight <= smallBody {
		return func() {}, listener.ReadAll(rw, r, MaxBody)
	}
	if !w.bodies.TryAcquire(weight) {
		listener.Full(rw, fmt.Sprintf("the bodies of the requests under way have reached the limit of %d bytes", maxBodies))
		return func() {}, false
	}
	return func() { w.bodies.Release(weight) }, listener.ReadAll(rw, r, MaxBody)
}
