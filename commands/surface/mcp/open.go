package mcp

import (
	"encoding/json"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// Methods of the protocol.
const (
	cancelled = "notifications/cancelled" // cancels a request
	listen    = "subscriptions/listen"    // lasts until cancelled
)

// cancelledID returns the ID of the request that a notification cancels. ok is false for any other message.
func cancelledID(m *jsonrpc.Request) (id jsonrpc.ID, ok bool) {
	var params struct {
		RequestID any `json:"requestId"`
	}
	if m.Method != cancelled || m.IsCall() || json.Unmarshal(m.Params, &params) != nil {
		return id, false
	}
	id, err := jsonrpc.MakeID(params.RequestID)
	return id, err == nil && id.IsValid()
}

// openCalls tracks the unanswered requests of one connection. A request that its client has cancelled gets no answer.
// Source: Model Context Protocol 2025-11-25, "Cancellation". openCalls is safe for concurrent use.
type openCalls struct {
	mu    sync.Mutex
	calls map[jsonrpc.ID]*openCall
}

type openCall struct {
	state callState
	at    *session
	lasts bool // lasts until cancelled
}

type callState int

const (
	atWork    callState = iota
	calledOff           // cancelled by the client
	answering           // the answer is being written and recorded
)

// begin records a request that a session is about to receive.
func (o *openCalls) begin(request *jsonrpc.Request, at *session) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.calls == nil {
		o.calls = map[jsonrpc.ID]*openCall{}
	}
	o.calls[request.ID] = &openCall{at: at, lasts: request.Method == listen}
}

// callOff records that the client cancelled a request, and returns the session that works on the request. It returns
// nil if the request is not open or is already being answered.
func (o *openCalls) callOff(id jsonrpc.ID) *session {
	o.mu.Lock()
	defer o.mu.Unlock()
	call := o.calls[id]
	if call == nil || call.state == answering {
		return nil
	}
	call.state = calledOff
	return call.at
}

// answer reports whether the client has not cancelled a request, and marks the request as being answered.
func (o *openCalls) answer(id jsonrpc.ID) (wanted bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	call := o.calls[id]
	if call == nil {
		return true
	}
	wanted = call.state == atWork
	call.state = answering
	return wanted
}

// answered records that a request is no longer open: its answer was written, or taken back if that failed.
func (o *openCalls) answered(id jsonrpc.ID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.calls, id)
}

func (o *openCalls) has(id jsonrpc.ID) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.calls[id] != nil
}

// count returns the number of open requests: if lasting is set, of those that last until cancelled, else of the
// others.
func (o *openCalls) count(lasting bool) (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, call := range o.calls {
		if call.lasts == lasting {
			n++
		}
	}
	return n
}
