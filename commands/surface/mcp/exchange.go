package mcp

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mailroom/commands"
	"mailroom/orchestrator"
	"mailroom/orchestrator/pattern"
)

// exchange is what the calls of tools have in common that come over one connection, or in one HTTP request: who asks,
// whether they are still there, and what is to be noted of an answer once it was written or could not be. It is safe
// for concurrent use.
type exchange struct {
	caller commands.Caller
	gone   context.Context             // ends when whoever asks goes away
	valid  func(context.Context) error // that whoever asks is still let in, at the last moment; nil is always
	leave  func()                      // ends gone, where valid is not nil

	running sync.WaitGroup
	handing atomic.Int32 // how many of those hand out messages
	mu      sync.Mutex
	ended   bool                       // no more calls are taken
	last    int                        // the number given last
	open    map[int]func(written bool) // by the number that expect gave the answer; settle removes them
}

type exchangeKey struct{}

func withExchange(ctx context.Context, x *exchange) context.Context {
	return context.WithValue(ctx, exchangeKey{}, x)
}

// exchangeOf returns the exchange that a call belongs to. Every call has one; should it be missing, the caller is
// nobody, who may do nothing.
func exchangeOf(ctx context.Context) *exchange {
	if x, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		return x
	}
	return &exchange{gone: ctx}
}

// stillValid returns an error if whoever asks has lost the right to since.
func (x *exchange) stillValid(ctx context.Context) error {
	if x.valid == nil {
		return nil
	}
	return x.valid(ctx)
}

// begin returns a context for one call that ends with the call's own and when whoever asks goes away. Call done at its
// end. After end it is too late for a call: nobody would take its answer.
func (x *exchange) begin(ctx context.Context) (_ context.Context, done func(), err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ended {
		return ctx, nil, orchestrator.Errorf(orchestrator.Unavailable, "interrupted: the client has disconnected")
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

// callKey stands in the _meta of an answer that expect has numbered.
const callKey = "mailroom/answer"

// expect keeps a function to call once a result was written to whoever asked, or could not be, and puts a number into
// the result by which settle finds that function.
func (x *exchange) expect(result *sdk.CallToolResult, settled func(written bool)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.open == nil {
		x.open, x.last = map[int]func(bool){}, rand.IntN(1<<50) // no message can name it
	}
	x.last++
	x.open[x.last] = settled
	result.Meta = sdk.Meta{callKey: x.last}
}

// answerNumbers finds the numbers of answers in what is written to a client.
var answerNumbers = pattern.New(`"` + callKey + `":(\d+)`)

// settle has it noted whether the answers in a text were written.
func (x *exchange) settle(text []byte, written bool) {
	for _, found := range answerNumbers().FindAllSubmatch(text, -1) {
		number, _ := strconv.Atoi(string(found[1]))
		x.mu.Lock()
		settled := x.open[number]
		delete(x.open, number)
		x.mu.Unlock()
		if settled != nil {
			settled(written)
		}
	}
}

// end waits for the calls under way. An answer that was not settled by then was not written.
func (x *exchange) end() {
	x.mu.Lock()
	x.ended = true
	x.mu.Unlock()
	x.running.Wait()
	x.mu.Lock()
	left := x.open
	x.open = nil
	x.mu.Unlock()
	for _, settled := range left {
		settled(false)
	}
}
