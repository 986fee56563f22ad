package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"mailroom/orchestrator"
)

// Session is a command line that runs here for another machine, and its streams there. Reading and writing go there;
// both fail once the other side is gone.
type Session struct {
	Request
	In       io.Reader
	Out, Err io.Writer

	answers *lines
	input   chan *piece // what In has asked for
	told    chan *piece // and ReadFile, Exists and Ask
	written chan struct{}
	gone    <-chan struct{}
	reading sync.Mutex // In
	asking  sync.Mutex // ReadFile, Ask and Written
}

// errGone says that the other side is gone.
var errGone = errors.New("the other side is gone")

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
			answer = append(answer, p.Bytes...)
			if p.Err != "" {
				return nil, errors.New(p.Err)
			}
			if p.End {
				return answer, nil
			}
		case <-s.gone:
			return nil, errGone
		}
	}
}

// Fresh has the other side forget what was typed so far.
func (s *Session) Fresh() { s.answers.write(wanted{Fresh: true}) }

// Written waits until the other side has written all that Out was given. Error: it could not, or is gone.
func (s *Session) Written() error {
	s.asking.Lock()
	defer s.asking.Unlock()
	if err := s.answers.write(wanted{Write: true}); err != nil {
		return err
	}
	select {
	case <-s.written:
		return nil
	case <-s.gone:
		return errGone
	}
}

// input reads the standard input of the other side, as much as is asked for.
type input struct {
	*Session
	left []byte
	err  error
}

// Read implements io.Reader.
func (in *input) Read(b []byte) (int, error) {
	in.reading.Lock()
	defer in.reading.Unlock()
	if len(in.left) == 0 && in.err == nil && len(b) > 0 {
		in.err = in.answers.write(wanted{In: min(len(b), maxChunk)})
		if in.err == nil {
			in.next()
		}
	}
	n := copy(b, in.left)
	if in.left = in.left[n:]; n > 0 || len(b) == 0 {
		return n, nil
	}
	return 0, in.err
}

// next waits for what was asked for.
func (in *input) next() {
	select {
	case p := <-in.input:
		switch in.left = p.Bytes; {
		case p.Err != "":
			in.err = errors.New(p.Err)
		case p.End:
			in.err = io.EOF
		}
	case <-in.gone:
		in.err = errGone
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

// Handler runs command lines of the other side. run returns the exit status of one; its context ends when the other side
// is gone or has got a signal, which is its cause.
func Handler(run func(ctx context.Context, s *Session) int) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST "+runPath, func(rw http.ResponseWriter, r *http.Request) {
		in := json.NewDecoder(r.Body)
		var first told
		if err := in.Decode(&first); err != nil || first.Request == nil {
			http.Error(rw, "the first line is no request", http.StatusBadRequest)
			return
		}
		ctx, cancel := context.WithCancelCause(r.Context())
		defer cancel(nil)
		gone, goes := context.WithCancel(ctx)
		defer goes()
		s := &Session{Request: *first.Request, answers: &lines{out: rw, flush: http.NewResponseController(rw).Flush},
			input: make(chan *piece), told: make(chan *piece), written: make(chan struct{}), gone: r.Context().Done()}
		s.In, s.Out, s.Err = &input{Session: s}, output{s, false}, output{s, true}
		if err := s.answers.flush(); err != nil { // it may be long before the line prints anything
			return
		}
		orchestrator.GoSafe("remote", nil, func() {
			defer goes()
			s.listen(gone, in, cancel)
		})
		status := run(ctx, s)
		s.answers.write(wanted{Status: &status})
	})
	return mux
}

// listen hands on what the other side says, until it says nothing more.
func (s *Session) listen(ctx context.Context, in *json.Decoder, stop context.CancelCauseFunc) {
	for {
		var t told
		if err := in.Decode(&t); err != nil {
			return
		}
		switch {
		case t.In != nil:
			pass(ctx, s.input, t.In)
		case t.Answer != nil:
			pass(ctx, s.told, t.Answer)
		case t.Written:
			pass(ctx, s.written, struct{}{})
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

// farewell is how long command lines have to end once the other side is gone.
const farewell = 10 * time.Second

// Serve greets the other side of a connection, and serves it until it goes or ctx ends. Then what runs is told to stop,
// and has farewell to do so.
func Serve(ctx context.Context, conn net.Conn, programVersion string, h http.Handler) error {
	if _, err := fmt.Fprintf(conn, "%s%d %s\n", greeting, version, programVersion); err != nil {
		return err
	}
	listener := &single{conn: conn, closed: make(chan struct{})}
	var runs sync.WaitGroup // Shutdown does not wait for what runs for a connection that has ended
	server := &http.Server{Protocols: new(http.Protocols), ReadHeaderTimeout: time.Minute}
	server.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		runs.Add(1)
		defer runs.Done()
		h.ServeHTTP(rw, r)
	})
	server.Protocols.SetUnencryptedHTTP2(true)
	server.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateClosed {
			listener.Close()
		}
	}
	defer context.AfterFunc(ctx, func() { listener.Close() })()
	if err := server.Serve(listener); !errors.Is(err, net.ErrClosed) {
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
