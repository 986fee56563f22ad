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

// Serve serves tools of the named vocabularies, of all when none is named, to the caller of the server's Env, until in
// ends or ctx does, which are no errors. The caller is registered, and takes part in its session, when its host
// connects. Errors: unavailable if in cannot be read; those of writing to out as they are.
func (s *Server) Serve(ctx context.Context, in io.Reader, out io.Writer, vocabularies ...string) error {
	alone := *s
	alone.arrival, alone.client = &arrival{env: s.env, owner: s.owner}, &clientTime{of: s.CallTime}
	return alone.offering(s.env.Caller.Admin, vocabularies...).serveStream(ctx, s.env.Caller, in, out)
}

const (
	// lastWords is how long calls may continue after standard input has ended: a script that pipes requests in still reads
	// the answers. It is also how long interrupted calls may take to end. What they could not write is taken back.
	lastWords = time.Second
	// lastAnswers is how long calls may continue that hand out no messages, and lose nothing if nobody reads the answer.
	// The first request alone waits as long as arrivalPatience for a slow database.
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
	c.until(context.WithoutCancel(ctx), time.After(lastWords), c.idle) // calls are interrupted, and what is being written is noted
	x.end()
	if why := context.Cause(gone); ctx.Err() == nil && !errors.Is(why, io.EOF) {
		return why
	}
	return nil
}

// connection is that of one client on standard input and output. It reads and writes the messages itself, and hands
// each to a session of the SDK, of which it has several: to the SDK a session is initialized once any request has come,
// whatever its era, and of two subscriptions to one inbox it forgets the first.
type connection struct {
	offered  *offered
	x        *exchange
	ctx      context.Context         // of the sessions
	leave    context.CancelCauseFunc // ends x.gone
	over     chan struct{}           // is closed when nothing more is read or written
	open     openCalls
	answered chan struct{} // gets something, unless it is full, when a request was answered
	sessions map[era]*session

	mu  sync.Mutex
	out io.Writer
}

// era is one of the two ways in which a client speaks: legacy after an `initialize`, modern in requests that name their
// version. A client that first asks what there is may use both. Source: Model Context Protocol 2026-07-28,
// "Terminology".
type era bool

const (
	legacy era = false
	modern era = true
)

// read hands on what the client says, and answers what is no message, until it goes. It returns why that is: io.EOF is
// no fault.
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

// take hands one message on, or answers it.
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
		return // the answer to a request: we make none
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
	// A request with the id of an open one calls that off, since its answer would be taken for the other's. And a
	// client that has its answer may be quicker than what is noted of it.
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

// callOff has the session that works on a request end that work.
func (c *connection) callOff(id jsonrpc.ID) {
	at := c.open.callOff(id)
	if at == nil {
		return
	}
	params, err := json.Marshal(map[string]any{"requestId": id.Raw()})
	if err != nil {
		panic(err) // it is a number or a text
	}
	at.get(&jsonrpc.Request{Method: cancelled, Params: params})
}

// idle reports whether no request is open but those that last.
func (c *connection) idle() bool { return c.open.count(false) == 0 }

// until waits for answers until enough is true, patience has something, or ctx ends.
func (c *connection) until(ctx context.Context, patience <-chan time.Time, enough func() bool) {
	defer c.ring() // another may wait for the same
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

// ring has those look again who wait in until.
func (c *connection) ring() {
	select {
	case c.answered <- struct{}{}:
	default:
	}
}

// refuse answers what is not accepted.
func (c *connection) refuse(id json.RawMessage, why *jsonrpc.Error) { c.write(rpcError(id, why)) }

// write reports whether it has written one line, which it does unless the client is gone. Where it cannot, the client
// is gone from then on.
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

// sessionOf returns the session of an era, which begins with its first message.
func (c *connection) sessionOf(e era) *session {
	if c.sessions[e] == nil {
		c.sessions[e] = c.session(c.offered.tools)
	}
	return c.sessions[e]
}

// session begins a session with a server.
func (c *connection) session(with *sdk.Server) *session {
	s := &session{c: c, messages: make(chan jsonrpc.Message), closed: make(chan struct{})}
	if _, err := with.Connect(c.ctx, s, nil); err != nil {
		c.leave(err)
	}
	return s
}

// session is one of the SDK's on a connection. It is a transport of the SDK, and a connection of it.
type session struct {
	c        *connection
	once     bool // it ends with the answer to its one request
	messages chan jsonrpc.Message
	closing  sync.Once
	closed   chan struct{}
}

// get hands a message to the session.
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

// Write implements sdk.Connection. That an answer could not be written is noted here, and no error: the SDK would not
// say of the others that they were to be.
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
