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

// Handlers returns the handlers that serve tools over streamable HTTP, by path. /mcp serves the tools of all
// vocabularies, and /mcp/VOCABULARY those of one vocabulary under the names in its document. The right of the token
// determines the tools. The handlers belong in web.Options.WithToken.
func (s *Server) Handlers() map[string]http.Handler {
	handlers := map[string]http.Handler{"/mcp": s.handler()}
	for _, name := range s.env.Catalogue.Vocabularies() {
		handlers["/mcp/"+name] = s.handler(name)
	}
	return handlers
}

// handler returns a handler for the tools of some vocabularies.
func (s *Server) handler(vocabularies ...string) http.Handler {
	// Created on first use: the tools of all vocabularies and their schemas take a few megabytes.
	forAll := sync.OnceValue(func() *sdk.Server { return s.offering(false, vocabularies...).tools })
	forAdmins := sync.OnceValue(func() *sdk.Server { return s.offering(true, vocabularies...).tools })
	return s.handlerOf(func(r *http.Request) *sdk.Server {
		if web.CallerOf(r.Context()).Admin {
			return forAdmins()
		}
		return forAll()
	})
}

// handlerOf returns a handler that serves each request with a suitable server. Requests do not belong to sessions:
// the token of each request identifies the caller, and an answer goes only to the sender of the request. A
// `subscriptions/listen` request has a server of its own.
func (s *Server) handlerOf(server func(*http.Request) *sdk.Server) http.Handler {
	handler := s.streamable(server)
	var under underway
	var listeners listener.Rates
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		gone, leave := context.WithCancel(r.Context())
		defer leave()
		x := &exchange{caller: web.CallerOf(r.Context()), gone: gone, valid: web.StillValid, leave: leave}
		body, _ := io.ReadAll(r.Body) // from memory: package web has read the body
		r.Body = io.NopCloser(bytes.NewReader(body))
		rw.Header().Set("X-Accel-Buffering", "no") // makes proxies forward events at once
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

// listensPerCaller is the maximum number of concurrent subscriptions of a caller. Each one checks for messages at
// every change.
const listensPerCaller = 32

// streamable returns an HTTP handler for servers of the SDK.
func (s *Server) streamable(server func(*http.Request) *sdk.Server) http.Handler {
	return sdk.NewStreamableHTTPHandler(server, &sdk.StreamableHTTPOptions{
		Stateless: true, Logger: s.env.Log, MaxRequestBodyBytes: web.MaxBody,
		DisableLocalhostProtection: true, // package web does this, and allows the names of a proxy
	})
}

// watchedWriter reports to the exchange which answers were written. It settles each answer at once, since the client
// may disconnect or ask for more before the request has ended.
type watchedWriter struct {
	http.ResponseWriter
	x     *exchange
	mu    sync.Mutex
	begun bool // the response is a stream of events
}

// Write implements io.Writer. The SDK writes each answer with one call.
func (w *watchedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.begun = w.begun || strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream")
	err := web.Gone(w.x.gone) // after the client disconnects, the system may still accept data
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

// FlushError is the method that http.ResponseController uses.
func (w *watchedWriter) FlushError() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// stillThere is the interval between comments on an idle event stream, so that no proxy considers the stream dead.
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

// Unwrap returns the underlying writer, for http.ResponseController.
func (w *watchedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
