package mcp

import (
	"encoding/json"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// openCalls keeps track of the requests of one connection that have not been answered yet. A request that its client has
// cancelled gets no answer at all. Source: Model Context Protocol 2025-11-25, "Cancellation". It is safe for concurrent use.
type openCalls struct {
	mu    sync.Mutex
	calls map[jsonrpc.ID]bool // true: cancelled
}

// heard takes note of a message of the client: a request, which is open from now on, or the cancellation of one.
func (o *openCalls) heard(m jsonrpc.Message) {
	request, ok := m.(*jsonrpc.Request)
	if !ok {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case request.IsCall():
		if o.calls == nil {
			o.calls = map[jsonrpc.ID]bool{}
		}
		o.calls[request.ID] = false
	case request.Method == "notifications/cancelled":
		var params struct {
			RequestID any `json:"requestId"`
		}
		if json.Unmarshal(request.Params, &params) != nil {
			return
		}
		id, err := jsonrpc.MakeID(params.RequestID)
		if _, open := o.calls[id]; open && err == nil {
			o.calls[id] = true
		}
	}
}

// answer takes note that a request is about to be answered, and reports whether its client still wants that answer.
func (o *openCalls) answer(id jsonrpc.ID) (wanted bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	calledOff := o.calls[id]
	delete(o.calls, id)
	return !calledOff
}

func (o *openCalls) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.calls)
}
