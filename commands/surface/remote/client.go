package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"

	"mailroom/orchestrator"
)

// Streams are those of a command line here.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	Signals  <-chan int // numbers of those that the line is to be told of
	Fresh    func()     // forgets what was typed so far; nil does nothing
	// Answer answers a question of the other side, see Session.Ask. nil knows nothing.
	Answer func(question string) ([]byte, error)
}

// Client runs command lines in a place.
type Client struct {
	place Place
	http  *http.Client
}

// NewClient returns a client of a place, to which dial connects when something is run there.
func NewClient(place Place, dial func(context.Context) (net.Conn, error)) *Client {
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }
	return &Client{place: place, http: &http.Client{Transport: transport}}
}

// Close ends the connection.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Run runs a command line there, and returns its exit status. Errors: unavailable if the place cannot be reached, or is
// lost before the line has ended: then its outcome is not known.
func (c *Client) Run(ctx context.Context, req *Request, s Streams) (status int, err error) {
	body, writer := io.Pipe()
	defer body.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+scheme[:3]+runPath, body)
	if err != nil {
		return 0, err
	}
	tells := &lines{out: writer}
	orchestrator.GoSafe("request", nil, func() { tells.write(told{Request: req}) })
	answer, err := c.http.Do(r)
	if err != nil {
		return 0, c.lost(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 1000))
		return 0, c.lost(fmt.Errorf("%s: %s", answer.Status, text))
	}
	run := &running{Streams: s, ctx: ctx, req: req, tells: tells, out: &plain{out: s.Out}, err: &plain{out: s.Err}}
	orchestrator.GoSafe("signals", nil, run.passSignals)
	status, err = run.follow(json.NewDecoder(answer.Body))
	if err != nil && run.failed == nil {
		return 0, c.lost(err)
	}
	return status, errors.Join(err, run.failed)
}

// lost is the error for a connection that was lost. One that could not be made has an error of its own.
func (c *Client) lost(err error) error {
	if own, ok := errors.AsType[*orchestrator.Error](err); ok {
		return own
	}
	return &orchestrator.Error{Code: orchestrator.Unavailable, Err: err,
		Message: "the connection to " + c.place.String() + " was lost, and the outcome is not known",
		Hint:    "Look there before you type it again: it may have been done"}
}

// running is a command line that runs there.
type running struct {
	Streams
	ctx      context.Context
	req      *Request
	tells    *lines
	out, err *plain
	failed   error // why the output could not be written here
}

// follow does what the other side wants, until the line has ended there.
func (r *running) follow(in *json.Decoder) (status int, err error) {
	for {
		var w wanted
		if err := in.Decode(&w); err != nil {
			return 0, err
		}
		switch {
		case w.Out != nil:
			r.write(r.out, w.Out)
		case w.Err != nil:
			r.write(r.err, w.Err)
		case w.Write && r.failed == nil:
			err = r.tells.write(told{Written: true})
		case w.In > 0:
			orchestrator.GoSafe("standard input", nil, func() { r.tells.write(told{In: r.read(w.In)}) })
		case w.Fresh && r.Fresh != nil:
			r.Fresh()
		case w.Ask != "":
			err = r.tells.write(told{Answer: r.answer(w.Ask)})
		case w.File != "":
			err = r.sendFile(w.File, w.Stat)
		case w.Status != nil:
			return *w.Status, nil
		}
		if err == nil {
			err = r.failed
		}
		if err != nil {
			return 0, err
		}
	}
}

func (r *running) write(to *plain, b []byte) {
	if _, err := to.Write(b); err != nil && r.failed == nil {
		r.failed = err
	}
}

// read reads from standard input what is there, or waits for it.
func (r *running) read(most int) *piece {
	b := make([]byte, min(most, maxChunk))
	n, err := r.In.Read(b)
	p := &piece{Bytes: b[:n], End: errors.Is(err, io.EOF)}
	if err != nil && !p.End {
		p.Err = err.Error()
	}
	return p
}

// answer answers a question.
func (r *running) answer(question string) *piece {
	if r.Answer == nil {
		return &piece{Err: "nothing is known of " + question}
	}
	text, err := r.Answer(question)
	if err != nil {
		return &piece{Err: err.Error()}
	}
	return &piece{Bytes: text, End: true}
}

// sendFile sends a file that the command line names, in pieces, or only that it is there. The other side gets no other.
func (r *running) sendFile(path string, stat bool) error {
	refuse := func(err error) error { return r.tells.write(told{Answer: &piece{Err: err.Error()}}) }
	if !r.req.names(path) {
		return refuse(fmt.Errorf("the command line names no file %s", path))
	}
	if stat {
		if _, err := os.Stat(path); err != nil {
			return refuse(err)
		}
		return r.tells.write(told{Answer: &piece{End: true}})
	}
	file, err := os.Open(path)
	if err != nil {
		return refuse(err)
	}
	defer file.Close()
	for b := make([]byte, maxChunk); ; {
		n, err := io.ReadFull(file, b)
		end := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !end {
			return refuse(err)
		}
		if err := r.tells.write(told{Answer: &piece{Bytes: b[:n], End: end}}); err != nil || end {
			return err
		}
	}
}

// names reports whether a word of the line is this file, or has it behind an @ or a flag.
func (req *Request) names(path string) bool {
	for _, word := range req.Args {
		before, is := strings.CutSuffix(word, path)
		if is && (before == "" || before == "@" || strings.HasPrefix(before, "--") && (strings.HasSuffix(before, "=") || strings.HasSuffix(before, "=@"))) {
			return true
		}
	}
	return false
}

// passSignals tells the other side of signals.
func (r *running) passSignals() {
	for {
		select {
		case number := <-r.Signals:
			if r.tells.write(told{Signal: number}) != nil {
				return
			}
		case <-r.ctx.Done():
			return
		}
	}
}
