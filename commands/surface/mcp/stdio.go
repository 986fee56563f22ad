package mcp

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mailroom/commands"
	"mailroom/commands/surface"
	"mailroom/orchestrator"
	"mailroom/orchestrator/reading"
)

// Serve serves tools of the named vocabularies, of all when none is named, to the caller of the server's Env, until in ends or
// ctx does, which are no errors. The caller is registered, and takes part in its session, when its host connects.
func (s *Server) Serve(ctx context.Context, in io.Reader, out io.Writer, vocabularies ...string) error {
	alone := *s
	alone.arrival, alone.client = &arrival{env: s.env, owner: s.owner}, &clientTime{of: s.CallTime}
	return serveStream(ctx, s.env.Log, alone.offering(s.env.Caller.Admin, vocabularies...), s.env.Caller, in, out)
}

// serveStream serves one client until in ends or ctx does.
func serveStream(ctx context.Context, log *slog.Logger, s *sdk.Server, caller commands.Caller, in io.Reader, out io.Writer) error {
	gone, leave := context.WithCancel(ctx)
	defer leave()
	x := &exchange{caller: caller, gone: gone}
	answers := &lockedWriter{out: out}
	messages := onlyMessages(log, in, answers)
	defer messages.Close()
	transport := &watchedTransport{
		Transport: &sdk.IOTransport{Reader: messages, Writer: answers, MaxLineLength: surface.MaxLine + 1}, x: x, leave: leave,
	}
	ended := make(chan error, 1)
	orchestrator.GoSafe("a session of tools", log, func() {
		defer close(ended)
		ended <- s.Run(reading.InLine(withExchange(ctx, x), new(reading.Line)), transport)
	})
	var err error
	select {
	case err = <-ended:
	case <-gone.Done():
		select {
		case err = <-ended:
		case <-time.After(lastWords): // a client that has gone, or is about to, does not read what is being written
		}
	}
	leave()
	x.end()
	if ctx.Err() != nil || errors.Is(err, io.EOF) || errors.Is(err, sdk.ErrConnectionClosed) {
		return nil
	}
	return err
}

// watchedTransport tells the exchange which answers were written, and when the client has gone.
type watchedTransport struct {
	sdk.Transport
	x     *exchange
	leave func()
}

// Connect implements sdk.Transport.
func (t *watchedTransport) Connect(ctx context.Context) (sdk.Connection, error) {
	c, err := t.Transport.Connect(ctx)
	return &watchedConnection{Connection: c, t: t, answered: make(chan struct{}, 1)}, err
}

type watchedConnection struct {
	sdk.Connection
	t        *watchedTransport
	open     openCalls
	answered chan struct{}    // gets something, unless it is full, when a request was answered
	held     *jsonrpc.Request // to be read next: the client gave it the id of a request that is open
}

// lastWords is how long calls under way may go on when standard input has ended: whoever pipes some requests in still reads
// the answers. What cannot be written then is taken back.
const lastWords = time.Second

// Read implements sdk.Connection. A request with the id of an open one is read when that one has ended: it is called off, since its
// answer would be taken for the other's.
func (c *watchedConnection) Read(ctx context.Context) (jsonrpc.Message, error) {
	if held := c.held; held != nil {
		c.held = nil
		c.until(ctx, nil, func() bool { return !c.open.has(held.ID) })
		c.open.heard(held)
		return held, nil
	}
	m, err := c.Connection.Read(ctx)
	if request, ok := m.(*jsonrpc.Request); ok && request.IsCall() && c.open.works(request.ID) {
		c.held = request
		m = callOff(request.ID)
	} else if ok && request.IsCall() { // a client that has its answer may be quicker than what is noted of it
		c.until(ctx, nil, func() bool { return !c.open.has(request.ID) })
	}
	c.open.heard(m)
	if err != nil {
		c.until(ctx, time.After(lastWords), func() bool { return c.open.count() == 0 })
		c.t.leave()
	}
	return m, err
}

// until waits for answers until enough is true, patience has something, or ctx ends.
func (c *watchedConnection) until(ctx context.Context, patience <-chan time.Time, enough func() bool) {
	for !enough() {
		select {
		case <-c.answered:
		case <-patience:
			return
		case <-ctx.Done():
			return
		}
	}
}

// Write implements sdk.Connection.
func (c *watchedConnection) Write(ctx context.Context, m jsonrpc.Message) (err error) {
	answer, ok := m.(*jsonrpc.Response)
	if !ok {
		return c.Connection.Write(ctx, m)
	}
	wanted := c.open.answer(answer.ID)
	if wanted {
		err = c.Connection.Write(ctx, &jsonrpc.Response{ID: answer.ID, Result: answer.Result, Error: withCode(answer.Error, jsonrpc.CodeInvalidRequest)})
	}
	c.t.x.settle(answer.Result, wanted && err == nil)
	c.open.answered(answer.ID)
	select {
	case c.answered <- struct{}{}:
	default:
	}
	return err
}
