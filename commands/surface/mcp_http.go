package surface

import (
	"context"
	"net/http"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// routeTools serves /mcp, with the tools of all vocabularies, and /mcp/VOCABULARY, with those of one under its document's
// own names, over streamable HTTP. Which tools there are depends on the token's right.
func (w *web) routeTools(mux *http.ServeMux, version string) {
	mux.Handle("/mcp", w.authenticated(w.tools(version)))
	for _, name := range w.env.Catalogue.Vocabularies() {
		mux.Handle("/mcp/"+name, w.authenticated(w.tools(version, name)))
	}
}

// tools serves the tools of some vocabularies. Requests have no session of their own: each says who asks by its token, and
// an answer is on its way to whoever sent the request, or to nobody.
func (w *web) tools(version string, vocabularies ...string) http.HandlerFunc {
	t := newToolServer(w.env)
	if w.options.progressEvery > 0 {
		t.every = w.options.progressEvery
	}
	// Made when they are first asked for: the tools of all vocabularies and their schemas are a few megabytes.
	forAll := sync.OnceValue(func() *mcp.Server { return t.server(version, false, vocabularies...) })
	forAdmins := sync.OnceValue(func() *mcp.Server { return t.server(version, true, vocabularies...) })
	return w.serveTools(func(r *http.Request) *mcp.Server {
		if callerOf(r.Context()).Admin {
			return forAdmins()
		}
		return forAll()
	})
}

// serveTools serves the tools of the server that is for whoever asks.
func (w *web) serveTools(server func(*http.Request) *mcp.Server) http.HandlerFunc {
	handler := mcp.NewStreamableHTTPHandler(server, &mcp.StreamableHTTPOptions{
		Stateless: true, Logger: w.env.Log, MaxRequestBodyBytes: maxBody,
		DisableLocalhostProtection: true, // guard has seen to it, and knows the names of a proxy
	})
	var under underway
	return func(rw http.ResponseWriter, r *http.Request) {
		gone, leave := context.WithCancel(r.Context())
		defer leave()
		x := &exchange{caller: callerOf(r.Context()), gone: gone, mayHave: w.mayHave}
		answers := answerRefusals(&watchedWriter{rw, x}, r)
		if answers == nil {
			return
		}
		defer under.enter(r, leave)()
		handler.ServeHTTP(answers, r.WithContext(withExchange(r.Context(), x)))
		x.end()
	}
}

// watchedWriter tells the exchange which answers were written. What a client has taken is settled at once: it may go, or
// ask for more, before the request has ended.
type watchedWriter struct {
	http.ResponseWriter
	x *exchange
}

// Write implements io.Writer. An answer is one call of it.
func (w *watchedWriter) Write(p []byte) (int, error) {
	err := w.x.gone.Err() // for somebody who has gone the system would still take it
	if err == nil && hungUp(w.x.gone) {
		err = errGone
	}
	n := 0
	if err == nil {
		n, err = w.ResponseWriter.Write(p)
	}
	if err == nil {
		err = http.NewResponseController(w.ResponseWriter).Flush()
	}
	w.x.settleIn(p, err == nil)
	return n, err
}

// Unwrap lets a response controller reach what is below.
func (w *watchedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
