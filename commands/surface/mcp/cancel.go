package mcp

import (
	"context"
	"net/http"
	"slices"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// underway tracks the HTTP requests that one endpoint is answering, so that a client can cancel one of them. The
// client cancels it with a notification, which is another HTTP request. The connection of the first request may stay
// open, so only the notification shows that nobody will read the answer. Source: Model Context Protocol 2025-11-25,
// "Cancellation". underway is safe for concurrent use.
type underway struct {
	mu    sync.Mutex
	calls map[callID][]*context.CancelFunc
}

// callID identifies a request: its Authorization header, the query of its URL, and its JSON-RPC ID. Two clients with
// the same token may use the same IDs. One of them then also cancels the request of the other, which fails without
// having taken a message.
type callID struct {
	token, query string
	id           jsonrpc.ID
}

// enter tracks a request until exit is called. leave cancels the request. If m, the body, is itself a cancellation
// notification, enter cancels the requests that it names.
func (u *underway) enter(r *http.Request, m *jsonrpc.Request, leave context.CancelFunc) (exit func()) {
	if m == nil {
		return func() {}
	}
	call := callID{r.Header.Get("Authorization"), r.URL.RawQuery, m.ID}
	u.mu.Lock()
	defer u.mu.Unlock()
	if other, is := cancelledID(m); is {
		call.id = other
		for _, end := range u.calls[call] {
			(*end)()
		}
		return func() {}
	}
	if !m.IsCall() {
		return func() {}
	}
	if u.calls == nil {
		u.calls = map[callID][]*context.CancelFunc{}
	}
	u.calls[call] = append(u.calls[call], &leave)
	return func() { u.forget(call, &leave) }
}

func (u *underway) forget(id callID, leave *context.CancelFunc) {
	u.mu.Lock()
	defer u.mu.Unlock()
	left := slices.DeleteFunc(u.calls[id], func(other *context.CancelFunc) bool { return other == leave })
	if u.calls[id] = left; len(left) == 0 {
		delete(u.calls, id)
	}
}
