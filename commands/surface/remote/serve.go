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

// Session is a command line that runs here for another machine, and its streams there. Reading and writing go there;
// both fail once the other side has disconnected.
type Session struct {
	Request
	In       io.Reader
	Out, Err io.Writer

	answers *lines
	input   chan *piece     // what In has asked for
	told    chan *piece     // and ReadFile, Exists and Ask
	ctx     context.Context // of the line
	valid   func() error    // that whoever asks is still let in; nil: always
	gone    chan struct{}
	left    bool // once gone: the other side has ended the line itself, over a connection that is whole
	reading sync.Mutex
	asking  sync.Mutex // ReadFile, Ask and Deliver
	open    *deliveries
	given   *delivery // the last one
}

// errGone is the error for another side that is gone.
var errGone = errors.New("the other side has disconnected")

// ReadFile reads a file of the other side, which the command line must name.
func (s *Session) ReadFile(path string) ([]byte, error) { return s.ask(wanted{File: path}) }

// Exists reports whether a file is there on the other side.
func (s *Session) Exists(path string) bool {
	_, err := s.ask(wanted{File: path, Stat: true})
	return err == nil
}

// Ask returns the answer of the other side to a question. Error: it has none.
func (s *Session) Ask(question string) ([]byte, error) { return s.ask(wanted{Ask: question}) }

// ask waits for all parts of an answer.
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

// Fresh has the other side forget what was typed so far.
func (s *Session) Fresh() { s.answers.write(wanted{Fresh: true}) }

// Deliver has the other side print b, all of it or nothing, and returns once it has. If the connection is lost meanwhile,
// it waits for Grace: the other side may have printed it, and confirms that over another connection. Error: the other side
// has not printed it, or not reported that in time.
func (s *Session) Deliver(b []byte) error {
	s.asking.Lock()
	defer s.asking.Unlock()
	if s.valid != nil {
		if err := s.valid(); err != nil {
			return err
		}
	}
	s.given.settle() // what came of it is noted by now
	d := s.open.add()
	s.given = d
	for len(b) > maxChunk {
		s.answers.write(wanted{Hold: b[:maxChunk]})
		b = b[maxChunk:]
	}
	s.answers.write(wanted{Hold: b, Write: d.id}) // if that fails, the other side has disconnected
	late := time.Duration(0)                      // what has come is counted
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

// lastPiece is how long a line that is to end waits for the other side to print what it was given.
const lastPiece = 2 * time.Second

// input reads the standard input of the other side, as much as is asked for.
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

// next waits for what was asked for.
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

// output writes to a stream of the other side.
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

// Server runs command lines of the other side, over any number of connections.
type Server struct {
	// Run returns the exit status of a line. Its context ends when the other side has disconnected or has got a signal,
	// which is its cause. It may be called from several goroutines.
	Run  func(ctx context.Context, s *Session) int
	open *deliveries
}

// NewServer returns a server that runs lines with run. A process that serves but one connection needs a folder of the
// user's own, in which its successor finds it: see Session.Deliver; "" is none.
func NewServer(run func(ctx context.Context, s *Session) int, folder string) *Server {
	return &Server{Run: run, open: newDeliveries(folder)}
}

// Handler answers at RunPath and WrittenPath.
func (v *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+RunPath, func(rw http.ResponseWriter, r *http.Request) { v.ServeRun(rw, r, v.Run, nil) })
	mux.HandleFunc("POST "+WrittenPath+"{id}", v.ServeWritten)
	return mux
}

// validAgain is how often it is asked whether whoever has sent a line is still let in.
const validAgain = 10 * time.Second

// ServeRun answers a request at RunPath with run in place of v.Run. The line ends once valid has an error; nil has none.
func (v *Server) ServeRun(rw http.ResponseWriter, r *http.Request, run func(ctx context.Context, s *Session) int, valid func() error) {
	control := http.NewResponseController(rw)
	in := newReader(r.Body)
	var first told
	if err := in.next(&first); err != nil || first.Request == nil {
		http.Error(rw, "the first line must be a request", http.StatusBadRequest)
		return
	}
	control.SetReadDeadline(time.Time{}) // what is typed comes when it comes
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	flush := func() error {
		err := control.Flush()
		control.SetWriteDeadline(time.Time{}) // it may be long before the next piece
		return err
	}
	s := &Session{Request: *first.Request, answers: &lines{out: rw, flush: flush}, ctx: ctx, valid: valid,
		input: make(chan *piece), told: make(chan *piece), gone: make(chan struct{}), open: v.open}
	s.In, s.Out, s.Err = &input{Session: s}, output{s, false}, output{s, true}
	if err := s.answers.flush(); err != nil { // it may be long before the line prints anything
		return
	}
	orchestrator.GoSafe("remote", nil, func() { s.listen(ctx, in, cancel) })
	if valid != nil {
		orchestrator.GoSafe("validity", nil, func() { s.watch(cancel) })
	}
	// Where this process is stopped, the line goes on as if the connection were lost: the client runs it again, if it may.
	unlessStopped := context.AfterFunc(r.Context(), s.answers.end)
	status := run(ctx, s)
	s.settle()
	if !unlessStopped() {
		panic(http.ErrAbortHandler)
	}
	s.answers.write(wanted{Status: &status})
	s.answers.end()
}

// settle reports what came of the last delivery.
func (s *Session) settle() {
	s.asking.Lock()
	defer s.asking.Unlock()
	s.given.settle()
}

// watch ends the line once whoever has sent it is not let in any more.
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

// listen hands on what the other side sends, until it sends nothing more.
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

// reset is the error of a request whose client has ended it. Package net/http has a type of this form, and no name for it.
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

// farewell is how long command lines have to end once the connection is lost: what they wait for meanwhile is Deliver.
const farewell = grace + 5*time.Second

// Serve greets the other side of a connection, and serves it until it goes or ctx ends. Then what runs is told to stop,
// and has farewell to do so.
func (v *Server) Serve(ctx context.Context, conn net.Conn, programVersion string) error {
	if _, err := fmt.Fprintf(conn, "%s%d %s\n", greeting, version, programVersion); err != nil {
		return err
	}
	defer v.open.close()
	h := v.Handler()
	one := &single{conn: conn, closed: make(chan struct{})}
	var runs sync.WaitGroup // Shutdown does not wait for what runs for a connection that has ended
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
	server.Close() // what runs is told
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

// greeting begins the line by which a connection begins. What comes before it is no part of the conversation: shells
// print much when they start.
const greeting = "mailroom-remote "

// single is a listener that has one connection.
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
