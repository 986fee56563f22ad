package mcp

import (
	"encoding/json"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// Methods of the protocol.
const (
	cancelled = "notifications/cancelled" // calls a request off
	listen    = "subscriptions/listen"    // lasts until it is called off
)

// cancelledID returns the id of the request that a notification calls off. ok is false for another message.
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

// openCalls keeps track of the requests of one connection that have not been answered yet. A request that its client
// has cancelled gets no answer at all. Source: Model Context Protocol 2025-11-25, "Cancellation". It is safe for
// concurrent use.
type openCalls struct {
	mu    sync.Mutex
	calls map[jsonrpc.ID]*openCall
}

type openCall struct {
	state callState
	at    *session
	lasts bool // until it is called off
}

type callState int

const (
	atWork    callState = iota
	calledOff           // by the client
	answering           // the answer is being written, and noted
)

// begin takes note of a request that a session is about to get.
func (o *openCalls) begin(request *jsonrpc.Request, at *session) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.calls == nil {
		o.calls = map[jsonrpc.ID]*openCall{}
	}
	o.calls[request.ID] = &openCall{at: at, lasts: request.Method == listen}
}

// callOff takes note that the client of a request does not want its answer, and returns the session that works on it;
// nil if the request is not open, or is being answered.
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

// answer reports whether the client of a request still wants its answer, which is written now.
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

// answered takes note that a request is not open any more: its answer was written or, if that was not possible, taken
// back.
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

// count returns how many requests are open, those that last or the others.
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
