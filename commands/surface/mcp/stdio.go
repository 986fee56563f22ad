package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"mailroom/commands"
	"mailroom/commands/surface"
	"mailroom/orchestrator"
	"mailroom/orchestrator/reading"
)

// Serve serves tools to the caller of the server's Env until in or ctx ends, in which case it returns nil. It serves
// the tools of the named vocabularies, or of all if none is named. When the host connects, Serve registers the caller
// and makes it join its session. It returns unavailable if in cannot be read, and errors of writing to out unchanged.
func (s *Server) Serve(ctx context.Context, in io.Reader, out io.Writer, vocabularies ...string) error {
	alone := *s
	alone.arrival, alone.client = &arrival{env: s.env, owner: s.owner}, &clientTime{of: s.CallTime}
	return alone.offering(s.env.Caller.Admin, vocabularies...).serveStream(ctx, s.env.Caller, in, out)
}

const (
	// lastWords is how long calls may continue after standard input has ended, so that a script that pipes in
	// requests can still read the answers. It is also how long interrupted calls may take to end. Messages in answers
	// that were not written by then are taken back.
	lastWords = time.Second
	// lastAnswers is how long calls may continue that hand out no messages, so that nothing is lost if nobody reads
	// the answer. The first request alone waits up to arrivalPatience for a slow database.
	lastAnswers = 5 * time.Second
)

// serveStream serves one client until in ends, out fails or ctx ends.
func (o *offered) serveStream(ctx context.Context, caller commands.Caller, in io.Reader, out io.Writer) error {
	gone, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	x := &exchange{caller: caller, gone: gone}
	c := &connection{
		offered: o, x: x, ctx: reading.InLine(withExchange(ctx, x), new(reading.Line)), leave: leave,
		over:     make(chan struct{}),
		answered: make(chan struct{}, 1), sessions: map[era]*session{}, out: out,
	}
	defer close(c.over)
	orchestrator.GoSafe("standard input", o.env.Log, func() {
		defer leave(errors.New("reading standard input failed"))
		leave(c.read(in))
	})
	<-gone.Done()
	// Wait until interrupted calls have ended and written answers are recorded.
	c.until(context.WithoutCancel(ctx), time.After(lastWords), c.idle)
	x.end()
	if why := context.Cause(gone); ctx.Err() == nil && !errors.Is(why, io.EOF) {
		return why
	}
	return nil
}

// connection is the connection of one client on standard input and output. It reads and writes the messages itself
// and passes each one to a session of the SDK. It has several sessions: the SDK considers a session initialized after
// any request, in either era, and forgets the first of two subscriptions to the same inbox.
type connection struct {
	offered  *offered
	x        *exchange
	ctx      context.Context         // context of the sessions
	leave    context.CancelCauseFunc // ends x.gone
	over     chan struct{}           // closed when serveStream returns, to end the sessions
	open     openCalls
	answered chan struct{} // receives a value, unless full, when a request was answered
	sessions map[era]*session

	mu  sync.Mutex
	out io.Writer
}

// era is one of the two modes of a client: legacy after an `initialize`, modern for requests that name their version.
// A client that first discovers the supported versions may use both. Source: Model Context Protocol 2026-07-28,
// "Terminology".
type era bool

const (
	legacy era = false
	modern era = true
)

// read reads the client's messages from in, passes each one on, and answers malformed ones. At the end of input, it
// waits for open requests, for at most lastWords and lastAnswers, and returns the reason for the end; io.EOF is the
// normal one.
func (c *connection) read(in io.Reader) error {
	lines := bufio.NewReaderSize(in, 64<<10)
	for {
		var find idFinder
		line, long, err := surface.ReadLine(lines, find.read)
		switch {
		case long:
			c.refuse(find.found(),
				&jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest,
					Message: fmt.Sprintf("the line must have at most %d bytes", surface.MaxLine)})
		case len(bytes.TrimSpace(line)) > 0:
			c.take(judge(line))
		}
		if err == nil {
			continue
		}
		c.until(c.x.gone, time.After(lastWords), c.idle)
		c.until(c.x.gone, time.After(lastAnswers), func() bool { return c.open.count(false) <= int(c.x.handing.Load()) })
		if !errors.Is(err, io.EOF) {
			err = &orchestrator.Error{Code: orchestrator.Unavailable, Message: "cannot read standard input",
				Err: err}
		}
		return err
	}
}

// take passes one message to its session, or answers it.
func (c *connection) take(r received) {
	if r.refused == nil {
		r.refused = unspoken(r.version)
	}
	if r.refused != nil {
		c.refuse(r.id, r.refused)
		return
	}
	request := r.request()
	if request == nil {
		return // the server sends no requests, so it expects no responses
	}
	if id, is := cancelledID(request); is {
		c.callOff(id)
		return
	}
	speaks := era(r.version >= modernVersion)
	if !request.IsCall() {
		c.sessionOf(speaks).get(request)
		return
	}
	// A request with the ID of an open request cancels that one, since the client could not tell their answers apart.
	// Also, a client may reuse an ID after it has the answer but before the answer is recorded.
	c.callOff(request.ID)
	c.until(c.x.gone, nil, func() bool { return !c.open.has(request.ID) })
	var at *session
	switch {
	case c.x.gone.Err() != nil:
		return
	case request.Method != listen || speaks != modern:
		at = c.sessionOf(speaks)
	case c.open.count(true) >= maxSubscriptions:
		c.refuse(r.id, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest,
			Message: fmt.Sprintf("the limit of %d subscriptions is reached; end one first", maxSubscriptions)})
		return
	default:
		at = c.session(c.offered.listening())
		at.once = true
	}
	c.open.begin(request, at)
	at.get(request)
}

// callOff makes the session that works on a request cancel it.
func (c *connection) callOff(id jsonrpc.ID) {
	at := c.open.callOff(id)
	if at == nil {
		return
	}
	params, err := json.Marshal(map[string]any{"requestId": id.Raw()})
	if err != nil {
		panic(err) // cannot happen: the ID is a number or a string
	}
	at.get(&jsonrpc.Request{Method: cancelled, Params: params})
}

// idle reports whether no request is open, except those that last until cancelled.
func (c *connection) idle() bool { return c.open.count(false) == 0 }

// until waits until enough returns true, patience fires, or ctx ends. It checks again after each answer.
func (c *connection) until(ctx context.Context, patience <-chan time.Time, enough func() bool) {
	defer c.ring() // wakes another waiting call of until
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

// ring wakes a waiting call of until.
func (c *connection) ring() {
	select {
	case c.answered <- struct{}{}:
	default:
	}
}

// refuse answers a refused message with an error.
func (c *connection) refuse(id json.RawMessage, why *jsonrpc.Error) { c.write(rpcError(id, why)) }

// write writes one line and reports whether it succeeded. It fails if the client has disconnected. A failed write
// ends the connection.
func (c *connection) write(line []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.x.gone.Err() != nil {
		return false
	}
	_, err := c.out.Write(line)
	if err != nil {
		c.leave(err)
	}
	return err == nil
}

// sessionOf returns the session of an era. The session begins with its first message.
func (c *connection) sessionOf(e era) *session {
	if c.sessions[e] == nil {
		c.sessions[e] = c.session(c.offered.tools)
	}
	return c.sessions[e]
}

// session starts a session with a server.
func (c *connection) session(with *sdk.Server) *session {
	s := &session{c: c, messages: make(chan jsonrpc.Message), closed: make(chan struct{})}
	if _, err := with.Connect(c.ctx, s, nil); err != nil {
		c.leave(err)
	}
	return s
}

// session is one session of the SDK on a connection. It implements both sdk.Transport and sdk.Connection.
type session struct {
	c        *connection
	once     bool // ends with the answer to its only request
	messages chan jsonrpc.Message
	closing  sync.Once
	closed   chan struct{}
}

// get passes a message to the session.
func (s *session) get(m jsonrpc.Message) {
	select {
	case s.messages <- m:
	case <-s.closed:
	case <-s.c.x.gone.Done():
	}
}

// Connect implements sdk.Transport.
func (s *session) Connect(context.Context) (sdk.Connection, error) { return s, nil }

// Read implements sdk.Connection.
func (s *session) Read(context.Context) (jsonrpc.Message, error) {
	select {
	case m := <-s.messages:
		return m, nil
	case <-s.closed:
	case <-s.c.over:
	}
	return nil, io.EOF
}

// Write implements sdk.Connection. It records a failure to write an answer instead of returning an error: after an
// error, the SDK would not call Write for the other answers, which must be recorded, too.
func (s *session) Write(_ context.Context, m jsonrpc.Message) error {
	answer, is := m.(*jsonrpc.Response)
	if is {
		m = &jsonrpc.Response{ID: answer.ID, Result: answer.Result,
			Error: withCode(answer.Error, jsonrpc.CodeInvalidRequest)}
	}
	line, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	if !is {
		s.c.write(line)
		return nil
	}
	s.c.x.settle(answer.Result, s.c.open.answer(answer.ID) && s.c.write(line))
	s.c.open.answered(answer.ID)
	s.c.ring()
	if s.once {
		s.Close()
	}
	return nil
}

// Close implements sdk.Connection.
func (s *session) Close() error {
	s.closing.Do(func() { close(s.closed) })
	return nil
}

// SessionID implements sdk.Connection.
func (*session) SessionID() string { return "" }
