package mcp

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"sync"
)

// underway keeps track of the HTTP requests that one endpoint is answering, so that a client can cancel one. It does so by a
// notification, which is another HTTP request, and may leave the connection of the first one open: then nothing but this
// notification tells that nobody will read the answer. Source: Model Context Protocol 2025-11-25, "Cancellation". It is safe for concurrent use.
type underway struct {
	mu    sync.Mutex
	calls map[callID][]*context.CancelFunc
}

// callID identifies a request: its Authorization header, the query of its URL, and its id in JSON-RPC. Two clients with the same
// token may use the same ids. Then one of them cancels the request of the other, too, which fails without having taken a
// message.
type callID struct{ token, query, id string }

// enter takes note of a request until exit is called. leave is what cancels it. If the request is itself the notification that
// cancels others, enter cancels them.
func (u *underway) enter(r *http.Request, body []byte, leave context.CancelFunc) (exit func()) {
	var message struct {
		Method string          `json:"method"`
		ID     json.RawMessage `json:"id"`
		Params struct {
			RequestID json.RawMessage `json:"requestId"`
		} `json:"params"`
	}
	if json.Unmarshal(body, &message) != nil {
		return func() {} // the handler says what is wrong with it
	}
	id := callID{r.Header.Get("Authorization"), r.URL.RawQuery, string(message.ID)}
	u.mu.Lock()
	defer u.mu.Unlock()
	if message.Method == cancelled {
		id.id = string(message.Params.RequestID)
		for _, end := range u.calls[id] {
			(*end)()
		}
		return func() {}
	}
	if u.calls == nil {
		u.calls = map[callID][]*context.CancelFunc{}
	}
	u.calls[id] = append(u.calls[id], &leave)
	return func() { u.forget(id, &leave) }
}

func (u *underway) forget(id callID, leave *context.CancelFunc) {
	u.mu.Lock()
	defer u.mu.Unlock()
	left := slices.DeleteFunc(u.calls[id], func(other *context.CancelFunc) bool { return other == leave })
	if u.calls[id] = left; len(left) == 0 {
		delete(u.calls, id)
	}
}
