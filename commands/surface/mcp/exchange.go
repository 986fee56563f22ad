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

// exchange is the state that the tool calls of one connection, or of one HTTP request, share: the caller, whether the
// caller is still connected, and the functions to call after an answer was written or could not be written. It is
// safe for concurrent use.
type exchange struct {
	caller commands.Caller
	gone   context.Context             // ends when the client disconnects
	valid  func(context.Context) error // checks that the caller still has access; nil means always
	leave  func()                      // ends gone; set if valid is not nil

	running sync.WaitGroup
	handing atomic.Int32 // number of running calls that hand out messages
	mu      sync.Mutex
	ended   bool                       // no more calls are accepted
	last    int                        // the last number assigned
	open    map[int]func(written bool) // by the number from expect; settle removes entries
}

type exchangeKey struct{}

func withExchange(ctx context.Context, x *exchange) context.Context {
	return context.WithValue(ctx, exchangeKey{}, x)
}

// exchangeOf returns the exchange of a call. If it is missing, which does not happen, exchangeOf returns one with an
// empty caller, who has no rights.
func exchangeOf(ctx context.Context) *exchange {
	if x, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		return x
	}
	return &exchange{gone: ctx}
}

// stillValid returns an error if the caller has lost access since the request began.
func (x *exchange) stillValid(ctx context.Context) error {
	if x.valid == nil {
		return nil
	}
	return x.valid(ctx)
}

// begin returns a context for one call. The context ends with ctx or when the client disconnects. The caller must
// call done at the end of the call. After end, begin returns an error, because nobody would read the answer.
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

// callKey is the key of an answer's number in its _meta, see expect.
const callKey = "mailroom/answer"

// expect registers a function to call after a result was written to the client or could not be written. It stores a
// number in the result, by which settle finds the function.
func (x *exchange) expect(result *sdk.CallToolResult, settled func(written bool)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.open == nil {
		x.open, x.last = map[int]func(bool){}, rand.IntN(1<<50) // unpredictable, so that no message can contain it
	}
	x.last++
	x.open[x.last] = settled
	result.Meta = sdk.Meta{callKey: x.last}
}

// answerNumbers matches the numbers of answers in data written to a client.
var answerNumbers = pattern.New(`"` + callKey + `":(\d+)`)

// settle calls the functions of the answers in text, and passes whether the answers were written.
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

// end waits for the running calls. It treats every answer that is not settled by then as not written.
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
