package surface

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mailroom/commands"
)

// exchange is what the tools' calls share that come over one connection or request: who asks, whether they are still
// there, and what is to be undone for an answer that does not reach them. It is safe for concurrent use.
type exchange struct {
	caller commands.Caller
	gone   context.Context // ends when whoever asks goes away

	running sync.WaitGroup
	mu      sync.Mutex
	last    int
	undo    map[int]func() // by number of the answer
}

type exchangeKey struct{}

func withExchange(ctx context.Context, x *exchange) context.Context {
	return context.WithValue(ctx, exchangeKey{}, x)
}

// exchangeOf returns the exchange of a call. There is one for every call: without one nobody is known, and may do nothing.
func exchangeOf(ctx context.Context) *exchange {
	if x, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		return x
	}
	return &exchange{gone: ctx}
}

// begin returns a context for one call that ends with the call's own and when whoever asks goes away. Call done at its end.
func (x *exchange) begin(ctx context.Context) (_ context.Context, done func()) {
	x.running.Add(1)
	ctx, cancel := context.WithCancelCause(ctx)
	forget := context.AfterFunc(x.gone, func() { cancel(context.Cause(x.gone)) })
	return ctx, func() {
		forget()
		cancel(nil)
		x.running.Done()
	}
}

// callKey stands in the _meta of an answer that can be undone, with its number.
const callKey = "mailroom/answer"

// undoable notes what to do if an answer does not reach whoever asked.
func (x *exchange) undoable(result *mcp.CallToolResult, undo func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.undo == nil {
		x.undo = map[int]func(){}
	}
	x.last++
	x.undo[x.last] = undo
	if result.Meta == nil {
		result.Meta = mcp.Meta{}
	}
	result.Meta[callKey] = x.last
}

// settle notes what became of an answer that was to be written.
func (x *exchange) settle(answer json.RawMessage, written bool) {
	if !bytes.Contains(answer, []byte(callKey)) {
		return
	}
	var result struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	var number int
	if json.Unmarshal(answer, &result) != nil || json.Unmarshal(result.Meta[callKey], &number) != nil {
		return
	}
	x.mu.Lock()
	undo := x.undo[number]
	delete(x.undo, number)
	x.mu.Unlock()
	if !written && undo != nil {
		undo()
	}
}

// end waits for the calls under way, and undoes what was not settled unless all answers were taken.
func (x *exchange) end(taken bool) {
	x.running.Wait()
	x.mu.Lock()
	left := x.undo
	x.undo = nil
	x.mu.Unlock()
	if taken {
		return
	}
	for _, undo := range left {
		undo()
	}
}
