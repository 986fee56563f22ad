package mcp

import (
	"encoding/json"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// cancelled is the method by which a client calls a request off.
const cancelled = "notifications/cancelled"

// callOff returns the message by which a client calls a request off.
func callOff(id jsonrpc.ID) *jsonrpc.Request {
	params, err := json.Marshal(map[string]any{"requestId": id.Raw()})
	if err != nil {
		panic(err) // it is a number or a text
	}
	return &jsonrpc.Request{Method: cancelled, Params: params}
}

// openCalls keeps track of the requests of one connection that have not been answered yet. A request that its client has
// cancelled gets no answer at all. Source: Model Context Protocol 2025-11-25, "Cancellation". It is safe for concurrent use.
type openCalls struct {
	mu    sync.Mutex
	calls map[jsonrpc.ID]callState
}

type callState int

const (
	atWork    callState = iota
	calledOff           // by the client
	answering           // the answer is being written, and noted
)

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
			o.calls = map[jsonrpc.ID]callState{}
		}
		o.calls[request.ID] = atWork
	case request.Method == cancelled:
		var params struct {
			RequestID any `json:"requestId"`
		}
		if json.Unmarshal(request.Params, &params) != nil {
			return
		}
		id, err := jsonrpc.MakeID(params.RequestID)
		if state, open := o.calls[id]; open && state == atWork && err == nil {
			o.calls[id] = calledOff
		}
	}
}

// answer reports whether the client of a request still wants its answer, which is written now.
func (o *openCalls) answer(id jsonrpc.ID) (wanted bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.calls[id] == calledOff {
		return false
	}
	o.calls[id] = answering
	return true
}

// answered takes note that a request is not open any more: its answer was written or, if that was not possible, taken back.
func (o *openCalls) answered(id jsonrpc.ID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.calls, id)
}

func (o *openCalls) has(id jsonrpc.ID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, open := o.calls[id]
	return open
}

// works reports whether a request is open and its answer is not being written.
func (o *openCalls) works(id jsonrpc.ID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	state, open := o.calls[id]
	return open && state != answering
}

func (o *openCalls) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.calls)
}
