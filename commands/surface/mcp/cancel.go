package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"sync"
)

// underway are the requests of one endpoint that are being answered. A client calls one off with a notification, which
// comes as a request of its own, and keeps the first one open: nobody reads the answer, and only who knows of both can
// tell. Source: Model Context Protocol 2025-11-25, "Cancellation". It is safe for concurrent use.
type underway struct {
	mu    sync.Mutex
	calls map[callID][]*context.CancelFunc
}

// callID tells one client's request from another's. Clients that share a token number their requests alike, so that one
// of them may call off the other's, too: that one then has an error and has taken nothing.
type callID struct{ token, query, id string }

// enter notes a request until exit is called; leave ends its answering. A notification that calls others off does so.
func (u *underway) enter(r *http.Request, leave context.CancelFunc) (exit func()) {
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	var message struct {
		Method string          `json:"method"`
		ID     json.RawMessage `json:"id"`
		Params struct {
			RequestID json.RawMessage `json:"requestId"`
		} `json:"params"`
	}
	if err != nil || json.Unmarshal(body, &message) != nil {
		return func() {} // the handler says what is wrong with it
	}
	id := callID{r.Header.Get("Authorization"), r.URL.RawQuery, string(message.ID)}
	u.mu.Lock()
	defer u.mu.Unlock()
	if message.Method == "notifications/cancelled" {
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
