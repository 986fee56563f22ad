package mcp

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mailroom/commands/surface/web"
)

// Handlers serve tools over streamable HTTP, by path: /mcp those of all vocabularies, and /mcp/VOCABULARY those of one under its
// document's own names. Which tools there are depends on the token's right. They go into web.Options.WithToken.
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
	forAll := sync.OnceValue(func() *sdk.Server { return s.offering(false, vocabularies...) })
	forAdmins := sync.OnceValue(func() *sdk.Server { return s.offering(true, vocabularies...) })
	return s.handlerOf(func(r *http.Request) *sdk.Server {
		if web.CallerOf(r.Context()).Admin {
			return forAdmins()
		}
		return forAll()
	})
}

// handlerOf serves what is for whoever asks. Requests have no session of their own: each says who asks by its token, and an
// answer is on its way to whoever sent the request, or to nobody.
func (s *Server) handlerOf(server func(*http.Request) *sdk.Server) http.Handler {
	handler := sdk.NewStreamableHTTPHandler(server, &sdk.StreamableHTTPOptions{
		Stateless: true, Logger: s.env.Log, MaxRequestBodyBytes: web.MaxBody,
		DisableLocalhostProtection: true, // package web has seen to it, and knows the names of a proxy
	})
	var under underway
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		gone, leave := context.WithCancel(r.Context())
		defer leave()
		x := &exchange{caller: web.CallerOf(r.Context()), gone: gone, mayHave: web.MayHave}
		body, _ := io.ReadAll(r.Body) // from memory: package web has read it
		r.Body = io.NopCloser(bytes.NewReader(body))
		answers := answerRefusals(&watchedWriter{rw, x}, r, body)
		if answers == nil {
			return
		}
		defer under.enter(r, body, leave)()
		handler.ServeHTTP(answers, r.WithContext(withExchange(r.Context(), x)))
		x.end()
	})
}

// watchedWriter tells the exchange which answers were written. What a client has taken is settled at once: it may go, or
// ask for more, before the request has ended.
type watchedWriter struct {
	http.ResponseWriter
	x *exchange
}

// Write implements io.Writer. An answer is one call of it.
func (w *watchedWriter) Write(p []byte) (int, error) {
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

// Unwrap lets a response controller reach what is below.
func (w *watchedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
