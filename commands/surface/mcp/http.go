package mcp

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mailroom/commands/surface/listener"
	"mailroom/commands/surface/web"
	"mailroom/orchestrator"
)

// Handlers serve tools over streamable HTTP, by path: /mcp those of all vocabularies, and /mcp/VOCABULARY those of one
// under its document's own names. Which tools there are depends on the token's right. They go into
// web.Options.WithToken.
func (s *Server) Handlers() map[string]http.Handler {
	handlers := map[string]http.Handler{"/mcp": s.handler()}
	for _, name := range s.env.Catalogue.Vocabularies() {
		handlers["/mcp/"+name] = s.handler(name)
	}
	return handlers
}

// handler serves the tools of some vocabularies.
func (s *Server) handler(vocabularies ...string) http.Handler {
	// Made when they are first asked for: the tools of all vocabularies and their schemas are a few megabytes.
	forAll := sync.OnceValue(func() *sdk.Server { return s.offering(false, vocabularies...).tools })
	forAdmins := sync.OnceValue(func() *sdk.Server { return s.offering(true, vocabularies...).tools })
	return s.handlerOf(func(r *http.Request) *sdk.Server {
		if web.CallerOf(r.Context()).Admin {
			return forAdmins()
		}
		return forAll()
	})
}

// handlerOf serves what is for whoever asks. Requests have no session of their own: each says who asks by its token,
// and an answer is on its way to whoever sent the request, or to nobody. A `subscriptions/listen` has a server for
// itself.
func (s *Server) handlerOf(server func(*http.Request) *sdk.Server) http.Handler {
	handler := s.streamable(server)
	var under underway
	var listeners listener.Rates
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		gone, leave := context.WithCancel(r.Context())
		defer leave()
		x := &exchange{caller: web.CallerOf(r.Context()), gone: gone, valid: web.StillValid, leave: leave}
		body, _ := io.ReadAll(r.Body) // from memory: package web has read it
		r.Body = io.NopCloser(bytes.NewReader(body))
		rw.Header().Set("X-Accel-Buffering", "no") // proxies are to hand events on at once
		out := &watchedWriter{ResponseWriter: rw, x: x}
		answers, m := admit(out, r, body)
		if answers == nil {
			return
		}
		defer under.enter(r, m, leave)()
		if m != nil && m.Method == listen {
			token := x.caller.Name
			if !listeners.Enter(token, listensPerCaller) {
				listener.TooMany(rw, "too many subscriptions by "+token)
				return
			}
			defer listeners.Leave(token)
			listening := s.listening()
			defer orchestrator.Background(gone, "comments for a subscriber", s.env.Log, out.comment)()
			s.streamable(func(*http.Request) *sdk.Server { return listening }).ServeHTTP(answers,
				r.WithContext(withExchange(gone, x)))
			leave()
		} else {
			handler.ServeHTTP(answers, r.WithContext(withExchange(r.Context(), x)))
		}
		x.end()
	})
}

// listensPerCaller bounds the subscriptions that a caller has at a time. Each looks for mail at every change.
const listensPerCaller = 32

// streamable serves one server of the SDK or another over HTTP.
func (s *Server) streamable(server func(*http.Request) *sdk.Server) http.Handler {
	return sdk.NewStreamableHTTPHandler(server, &sdk.StreamableHTTPOptions{
		Stateless: true, Logger: s.env.Log, MaxRequestBodyBytes: web.MaxBody,
		DisableLocalhostProtection: true, // package web has seen to it, and knows the names of a proxy
	})
}

// watchedWriter tells the exchange which answers were written. What a client has taken is settled at once: it may go,
// or ask for more, before the request has ended.
type watchedWriter struct {
	http.ResponseWriter
	x     *exchange
	mu    sync.Mutex
	begun bool // a stream of events has
}

// Write implements io.Writer. An answer is one call of it.
func (w *watchedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begun = w.begun || strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream")
	err := web.Gone(w.x.gone) // for somebody who has gone the system would still take it
	n := 0
	if err == nil {
		n, err = w.ResponseWriter.Write(p)
	}
	if err == nil {
		err = http.NewResponseController(w.ResponseWriter).Flush()
	}
	w.x.settle(p, err == nil)
	return n, err
}

// FlushError implements what http.ResponseController looks for.
func (w *watchedWriter) FlushError() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// stillThere is how often a stream on which nothing may happen has a comment, so that nobody between takes it for dead.
const stillThere = 15 * time.Second

// comment writes comments between the events of a stream until ctx ends.
func (w *watchedWriter) comment(ctx context.Context) {
	ticker := time.NewTicker(stillThere)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		w.mu.Lock()
		begun := w.begun
		w.mu.Unlock()
		if begun {
			w.Write([]byte(": still there\n\n"))
		}
	}
}

// Unwrap lets a response controller reach what is below.
func (w *watchedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
