package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"mailroom/commands/surface/listener"
	"mailroom/orchestrator"
)

// Session is a command line that runs here for another machine, with the streams of that machine. Reads and writes
// fail once the other side has disconnected.
type Session struct {
	Request
	In       io.Reader
	Out, Err io.Writer

	answers *lines
	input   chan *piece     // answers to reads of In
	told    chan *piece     // answers to ReadFile, Exists and Ask
	ctx     context.Context // context of the line
	valid   func() error    // checks that the caller still has access; nil: always
	gone    chan struct{}
	left    bool // set before gone is closed: the other side ended the line, and the connection is intact
	reading sync.Mutex
	asking  sync.Mutex // held by ReadFile, Exists, Ask and Deliver
	open    *deliveries
	given   *delivery // the last delivery
}

// errGone is the error after the other side has disconnected.
var errGone = errors.New("the other side has disconnected")

// ReadFile reads a file of the other side. The command line must name the file.
func (s *Session) ReadFile(path string) ([]byte, error) { return s.ask(wanted{File: path}) }

// Exists reports whether a file exists on the other side.
func (s *Session) Exists(path string) bool {
	_, err := s.ask(wanted{File: path, Stat: true})
	return err == nil
}

// Ask returns the answer of the other side to a question, or an error if it has none.
func (s *Session) Ask(question string) ([]byte, error) { return s.ask(wanted{Ask: question}) }

// ask sends a question and collects all parts of the answer.
func (s *Session) ask(want wanted) (answer []byte, err error) {
	s.asking.Lock()
	defer s.asking.Unlock()
	if err := s.answers.write(want); err != nil {
		return nil, err
	}
	for {
		select {
		case p := <-s.told:
			if answer = append(answer, p.Bytes...); len(answer) > maxAnswer {
				return nil, errors.New("the answer is too large")
			}
			if p.Err != "" {
				return nil, errors.New(p.Err)
			}
			if p.End {
				return answer, nil
			}
		case <-s.gone:
			return nil, errGone
		case <-s.ctx.Done():
			return nil, context.Cause(s.ctx)
		}
	}
}

// Fresh makes the other side discard what was typed so far.
func (s *Session) Fresh() { s.answers.write(wanted{Fresh: true}) }

// Deliver makes the other side print b, all of it or nothing, and returns after that. If the connection is lost,
// Deliver waits up to grace, since the other side may have printed b and may confirm that over another connection.
// Deliver returns an error if the other side has not printed b, or has not confirmed that in time.
func (s *Session) Deliver(b []byte) error {
	s.asking.Lock()
	defer s.asking.Unlock()
	if s.valid != nil {
		if err := s.valid(); err != nil {
			return err
		}
	}
	s.given.settle() // its outcome is recorded by now
	d := s.open.add()
	s.given = d
	for len(b) > maxChunk {
		s.answers.write(wanted{Hold: b[:maxChunk]})
		b = b[maxChunk:]
	}
	// If this fails, the other side has disconnected.
	s.answers.write(wanted{Hold: b, Write: d.id})
	late := time.Duration(0) // by default, count only confirmations that have arrived
	select {
	case <-d.ended:
	case <-s.gone:
		if !s.left {
			late = s.open.grace
		}
	case <-s.ctx.Done():
		late = lastPiece
	}
	select {
	case <-d.ended:
	case <-time.After(late):
	}
	if d.giveUp() {
		return errGone
	}
	return nil
}

// lastPiece is how long a line that must end waits for the other side to print its output.
const lastPiece = 2 * time.Second

// input is the standard input of the other side. It requests only as much as is read.
type input struct {
	*Session
	rest []byte
	err  error
}

// Read implements io.Reader.
func (in *input) Read(b []byte) (int, error) {
	in.reading.Lock()
	defer in.reading.Unlock()
	if len(in.rest) == 0 && in.err == nil && len(b) > 0 {
		in.err = in.answers.write(wanted{In: min(len(b), maxChunk)})
		if in.err == nil {
			in.next()
		}
	}
	n := copy(b, in.rest)
	if in.rest = in.rest[n:]; n > 0 || len(b) == 0 {
		return n, nil
	}
	return 0, in.err
}

// next waits for the requested input.
func (in *input) next() {
	select {
	case p := <-in.input:
		switch in.rest = p.Bytes; {
		case p.Err != "":
			in.err = errors.New(p.Err)
		case p.End:
			in.err = io.EOF
		}
	case <-in.gone:
		in.err = errGone
	case <-in.ctx.Done():
		in.err = context.Cause(in.ctx)
	}
}

// output is an output stream of the other side.
type output struct {
	*Session
	isErr bool
}

// Write implements io.Writer.
func (o output) Write(b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		part := b[n:min(len(b), n+maxChunk)]
		if o.isErr {
			err = o.answers.write(wanted{Err: part})
		} else {
			err = o.answers.write(wanted{Out: part})
		}
		if err == nil {
			n += len(part)
		}
	}
	return n, err
}

// Server runs command lines for other machines, over any number of connections.
type Server struct {
	// Run runs a line and returns its exit status. Its context ends when the other side disconnects or sends a
	// signal; the cause names the signal. Run may be called concurrently.
	Run  func(ctx context.Context, s *Session) int
	open *deliveries
}

// NewServer returns a server that runs lines with run. A process that serves only one connection needs a folder of
// the user's own for its socket, at which its deliveries are confirmed if it loses the connection: see
// Session.Deliver. folder may be "".
func NewServer(run func(ctx context.Context, s *Session) int, folder string) *Server {
	return &Server{Run: run, open: newDeliveries(folder)}
}

// Handler returns a handler for RunPath and WrittenPath.
func (v *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+RunPath, func(rw http.ResponseWriter, r *http.Request) { v.ServeRun(rw, r, v.Run, nil) })
	mux.HandleFunc("POST "+WrittenPath+"{id}", v.ServeWritten)
	return mux
}

// validAgain is the interval at which the access of a line's caller is checked.
const validAgain = 10 * time.Second

// ServeRun answers a request at RunPath with run instead of v.Run. The line ends once valid returns an error; a nil
// valid never does.
func (v *Server) ServeRun(rw http.ResponseWriter, r *http.Request, run func(ctx context.Context, s *Session) int, valid func() error) {
	control := http.NewResponseController(rw)
	in := newReader(r.Body)
	var first told
	if err := in.next(&first); err != nil || first.Request == nil {
		http.Error(rw, "the first line must be a request", http.StatusBadRequest)
		return
	}
	control.SetReadDeadline(time.Time{}) // input may arrive at any time
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	flush := func() error {
		err := control.Flush()
		control.SetWriteDeadline(time.Time{}) // the next piece may take long
		return err
	}
	s := &Session{Request: *first.Request, answers: &lines{out: rw, flush: flush}, ctx: ctx, valid: valid,
		input: make(chan *piece), told: make(chan *piece), gone: make(chan struct{}), open: v.open}
	s.In, s.Out, s.Err = &input{Session: s}, output{s, false}, output{s, true}
	if err := s.answers.flush(); err != nil { // the first output may take long
		return
	}
	orchestrator.GoSafe("remote", nil, func() { s.listen(ctx, in, cancel) })
	if valid != nil {
		orchestrator.GoSafe("validity", nil, func() { s.watch(cancel) })
	}
	// If this process is stopped, end the line as if the connection were lost, so that the client runs it again if it
	// may.
	unlessStopped := context.AfterFunc(r.Context(), s.answers.end)
	status := run(ctx, s)
	s.settle()
	if !unlessStopped() {
		panic(http.ErrAbortHandler)
	}
	s.answers.write(wanted{Status: &status})
	s.answers.end()
}

// settle records the outcome of the last delivery.
func (s *Session) settle() {
	s.asking.Lock()
	defer s.asking.Unlock()
	s.given.settle()
}

// watch ends the line once its caller no longer has access.
func (s *Session) watch(stop context.CancelCauseFunc) {
	again := time.NewTicker(validAgain)
	defer again.Stop()
	for {
		select {
		case <-again.C:
		case <-s.ctx.Done():
			return
		}
		if err := s.valid(); orchestrator.CodeOf(err) == orchestrator.Unauthenticated && err != nil {
			stop(err)
			return
		}
	}
}

// listen passes on the messages of the other side until its input ends.
func (s *Session) listen(ctx context.Context, in reader, stop context.CancelCauseFunc) {
	defer close(s.gone)
	for {
		var t told
		if err := in.next(&t); err != nil {
			s.left = isReset(err)
			stop(errGone)
			return
		}
		switch {
		case t.In != nil:
			pass(ctx, s.input, t.In)
		case t.Answer != nil:
			pass(ctx, s.told, t.Answer)
		case t.Written != "":
			s.open.find(t.Written).confirm()
		case t.Unwritten != "":
			s.open.find(t.Unwritten).giveUp()
		case t.Signal > 0:
			stop(fmt.Errorf("%s signal received", syscall.Signal(t.Signal)))
		}
	}
}

func pass[T any](ctx context.Context, to chan<- T, what T) {
	select {
	case to <- what:
	case <-ctx.Done():
	}
}

// reset is the error of a request that its client has canceled. The type in package net/http has the same fields, but
// is not exported.
type reset struct {
	StreamID, Code uint32
	Cause          error
}

// Error implements error.
func (reset) Error() string { return "the request was canceled" }

func isReset(err error) bool {
	_, is := errors.AsType[reset](err)
	return is
}

// farewell is how long command lines may take to end after the connection was lost. They may wait in Deliver
// meanwhile.
const farewell = grace + 5*time.Second

// Serve greets the other side of a connection and serves it until it disconnects or ctx ends. Serve then tells the
// running lines to stop, and waits for them for at most farewell.
func (v *Server) Serve(ctx context.Context, conn net.Conn, programVersion string) error {
	if _, err := fmt.Fprintf(conn, "%s%d %s\n", greeting, version, programVersion); err != nil {
		return err
	}
	defer v.open.close()
	h := v.Handler()
	one := &single{conn: conn, closed: make(chan struct{})}
	var runs sync.WaitGroup // Shutdown does not wait for the handlers of a closed connection
	server := &http.Server{Protocols: new(http.Protocols), ReadHeaderTimeout: time.Minute, HTTP2: listener.Alive()}
	server.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		runs.Add(1)
		defer runs.Done()
		h.ServeHTTP(rw, r)
	})
	server.Protocols.SetUnencryptedHTTP2(true)
	server.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			one.Close()
		}
	}
	defer context.AfterFunc(ctx, func() { one.Close() })()
	if err := server.Serve(one); !errors.Is(err, net.ErrClosed) {
		return err
	}
	server.Close() // cancels the running lines
	ended := make(chan struct{})
	orchestrator.GoSafe("farewell", nil, func() {
		defer close(ended)
		runs.Wait()
	})
	select {
	case <-ended:
	case <-time.After(farewell):
	}
	return nil
}

// greeting begins the first line of a connection. Anything before the greeting is ignored, since shells may print
// text when they start.
const greeting = "mailroom-remote "

// single is a listener with one connection.
type single struct {
	conn   net.Conn
	once   sync.Once
	taken  bool
	closed chan struct{}
}

// Accept implements net.Listener.
func (s *single) Accept() (net.Conn, error) {
	if !s.taken {
		s.taken = true
		return s.conn, nil
	}
	<-s.closed
	return nil, net.ErrClosed
}

// Close implements net.Listener.
func (s *single) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}

// Addr implements net.Listener.
func (s *single) Addr() net.Addr { return pipeAddr{} }
