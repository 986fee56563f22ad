package mcp

import (
	"context"
	"math/rand/v2"
	"regexp"
	"strconv"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mailroom/commands"
	"mailroom/orchestrator"
)

// exchange is what the tools' calls share that come over one connection or request: who asks, whether they are still
// there, and what is to be undone for an answer that does not reach them. It is safe for concurrent use.
type exchange struct {
	caller  commands.Caller
	gone    context.Context                              // ends when whoever asks goes away
	mayHave func(context.Context, commands.Answer) error // refuses an answer at the last moment; nil refuses none

	running sync.WaitGroup
	mu      sync.Mutex
	ended   bool
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
// After end it is too late for a call: nobody would take its answer.
func (x *exchange) begin(ctx context.Context) (_ context.Context, done func(), err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ended {
		return ctx, nil, orchestrator.Errorf(orchestrator.Unavailable, "interrupted: whoever asked has gone")
	}
	x.running.Add(1)
	ctx, cancel := context.WithCancelCause(ctx)
	forget := context.AfterFunc(x.gone, func() { cancel(context.Cause(x.gone)) })
	return ctx, func() {
		forget()
		cancel(nil)
		x.running.Done()
	}, nil
}

// callKey stands in the _meta of an answer that can be undone, with its number.
const callKey = "mailroom/answer"

// undoable notes what to do if an answer does not reach whoever asked.
func (x *exchange) undoable(result *sdk.CallToolResult, undo func()) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.undo == nil {
		x.undo, x.last = map[int]func(){}, rand.IntN(1<<50) // no message can name it
	}
	x.last++
	x.undo[x.last] = undo
	if result.Meta == nil {
		result.Meta = sdk.Meta{}
	}
	result.Meta[callKey] = x.last
}

// answerNumbers finds the numbers of answers in what is written to a client.
var answerNumbers = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`"` + callKey + `":(\d+)`) })

// settle notes what became of the answers in a text that was to be written.
func (x *exchange) settle(text []byte, written bool) {
	for _, found := range answerNumbers().FindAllSubmatch(text, -1) {
		number, _ := strconv.Atoi(string(found[1]))
		x.mu.Lock()
		undo := x.undo[number]
		delete(x.undo, number)
		x.mu.Unlock()
		if !written && undo != nil {
			undo()
		}
	}
}

// end waits for the calls under way, and undoes what was not settled.
func (x *exchange) end() {
	x.mu.Lock()
	x.ended = true
	x.mu.Unlock()
	x.running.Wait()
	x.mu.Lock()
	left := x.undo
	x.undo = nil
	x.mu.Unlock()
	for _, undo := range left {
		undo()
	}
}
