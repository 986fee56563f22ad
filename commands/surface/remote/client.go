package remote

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v4"

	"mailroom/commands/surface/listener"
	"mailroom/orchestrator"
)

// Streams holds the streams of a command line on this machine.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	Signals  <-chan int // numbers of the signals to forward to the line
	Fresh    func()     // discards unread typed input; nil does nothing
	// Answer answers a question of the other side, see Session.Ask. nil answers none.
	Answer func(question string) ([]byte, error)
	// Again reports that running the line twice has the same effect as running it once, so that it runs again after a
	// lost connection. Keyed reports that this holds only for these exact words, because they contain an idempotency
	// key that a user would not type again.
	Again, Keyed bool
	// Whole reports that nothing is to be printed before the line has ended, so that it can run again until then.
	Whole bool
	// GoesOn reports that the line continues after a delivery.
	GoesOn bool
}

// Client runs command lines at a place. It is safe for concurrent use.
type Client struct {
	place Place
	token string
	base  string
	http  *http.Client
}

// NewClient returns a client of a place. It calls dial to connect when something is run there. With a pin, the
// connection uses TLS, and the other side must have the key of the pin. The other side may require a token.
func NewClient(place Place, pin, token string, dial func(context.Context) (net.Conn, error)) *Client {
	c := &Client{place: place, token: token, base: "http://localhost"}
	transport := &http.Transport{Protocols: new(http.Protocols), HTTP2: listener.Alive()}
	transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := dial(ctx)
		if err != nil {
			return nil, notDialed{err}
		}
		return conn, nil
	}
	if pin != "" {
		c.base = "https://" + place.address()
		transport.TLSClientConfig = pinned(pin)
		transport.Protocols.SetHTTP2(true)
	} else {
		transport.Protocols.SetUnencryptedHTTP2(true)
	}
	c.http = &http.Client{Transport: transport}
	return c
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// notDialed is the error for a connection that could not be established.
type notDialed struct{ error }

// Unwrap returns the cause.
func (e notDialed) Unwrap() error { return e.error }

// errLost is the error for a lost connection.
var errLost = errors.New("the connection was lost")

// patience is how long a line that may run again is retried after the connection was lost.
const patience = 30 * time.Second

func pauses(within time.Duration) *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(backoff.WithInitialInterval(50*time.Millisecond), backoff.WithMaxInterval(2*time.Second),
		backoff.WithMaxElapsedTime(within))
}

// Run runs a command line at the place and returns its exit status. It returns unavailable if the place cannot be
// reached, or if the connection is lost before the line has ended. In the latter case the outcome is unknown, unless
// the line may run again.
func (c *Client) Run(ctx context.Context, req *Request, s Streams) (status int, err error) {
	in := &typed{in: s.In, keeps: s.Again}
	cut := false
	for pause := pauses(patience); ; {
		began := time.Now()
		r := &running{Streams: s, client: c, req: req, typed: in, out: &plain{out: s.Out}, err: &plain{out: s.Err}}
		status, err = r.run(ctx)
		if _, away := errors.AsType[notDialed](err); !errors.Is(err, errLost) && !(away && cut) {
			return status, err
		}
		if cut = true; time.Since(began) > patience {
			pause.Reset()
		}
		wait := pause.NextBackOff()
		if !s.Again || r.printed && !s.GoesOn || !in.rewind() || wait == backoff.Stop {
			return 0, c.lost(err, s.Again && !s.Keyed)
		}
		select {
		case <-time.After(wait):
		case number := <-s.Signals:
			return 128 + number, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// Lost reports whether an error of Run means that the connection was lost.
func Lost(err error) bool { return errors.Is(err, errLost) }

// lost returns the error for a connection that could not be restored. harmless means that the user can safely run the
// line again.
func (c *Client) lost(err error, harmless bool) error {
	if harmless {
		return &orchestrator.Error{Code: orchestrator.Unavailable, Err: err, Message: "the connection to " + c.place.String() + " was lost",
			Hint: "Run the command again"}
	}
	return &orchestrator.Error{Code: orchestrator.Unavailable, Err: err,
		Message: "the connection to " + c.place.String() + " was lost; the outcome is unknown",
		Hint:    "Before you repeat the command, check with `mailroom list` or `mailroom trace` whether it was carried out"}
}

// Post posts body to a path at the place and decodes the answer. It returns the error of the other side, or
// unavailable.
func (c *Client) Post(ctx context.Context, path string, body, answer any) error {
	text, err := orchestrator.JSON(body)
	if err != nil {
		return err
	}
	got, err := c.do(ctx, path, bytes.NewReader(text))
	if err != nil {
		if errors.Is(err, errLost) {
			err = c.lost(err, false)
		}
		return err
	}
	defer got.Body.Close()
	return json.NewDecoder(got.Body).Decode(answer)
}

// do posts to a path. It returns errLost, notDialed, or the error that the other side answered.
func (c *Client) do(ctx context.Context, path string, body io.Reader) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+path, body)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	answer, err := c.http.Do(r)
	no, away := errors.AsType[notDialed](err)
	switch {
	case err == nil && answer.StatusCode == http.StatusOK:
		return answer, nil
	case err == nil:
		defer answer.Body.Close()
		return nil, c.refused(answer)
	case away:
		return nil, no
	case errors.Is(err, errOtherKey):
		return nil, otherKey(c.place)
	}
	return nil, fmt.Errorf("%w: %w", errLost, err)
}

// errNothingKnown is the error for a delivery that is unknown to the other side.
var errNothingKnown = errors.New("unknown delivery")

// refused returns the error in an answer of the other side.
func (c *Client) refused(answer *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	var failure struct {
		Error, Message, Hint string
	}
	if json.Unmarshal(text, &failure) != nil || failure.Error == "" {
		if answer.StatusCode == http.StatusNotFound && len(text) == 0 || answer.StatusCode == http.StatusConflict {
			return errNothingKnown
		}
		return orchestrator.Errorf(orchestrator.Unavailable, "the other machine answered %s: %s", answer.Status,
			orchestrator.Clip(strings.TrimSpace(string(text)))).
			WithHint("Check that the address belongs to a Mailroom daemon of a compatible version")
	}
	e := &orchestrator.Error{Code: orchestrator.Code(failure.Error), Message: plainText(failure.Message), Hint: plainText(failure.Hint)}
	switch {
	case e.Code == orchestrator.Unauthenticated && c.token == "":
		e.Hint = "On the machine with the database, run `mailroom invite NAME`. On this machine, run the command that it prints, or set MAILROOM_TOKEN"
	case e.Code == orchestrator.Unauthenticated:
		e.Hint = "The token has expired or was revoked. To join again, run `mailroom invite NAME` on the machine with the database. On this machine, run the command that it prints"
	}
	return e
}

// confirm reports to the other side that a delivery was written here. It retries until it gets an answer, since only
// a confirmed delivery is not shown again. An answer that the delivery is unknown also ends it.
func (c *Client) confirm(ctx context.Context, id string) {
	_ = backoff.Retry(func() error {
		answer, err := c.do(ctx, WrittenPath+id, nil)
		if err == nil {
			answer.Body.Close()
		} else if !errors.Is(err, errLost) && orchestrator.CodeOf(err) != orchestrator.Unavailable {
			err = backoff.Permanent(err)
		}
		return err
	}, backoff.WithContext(pauses(grace), ctx))
}

// running is a command line that runs at the place.
type running struct {
	Streams
	*typed
	client   *Client
	req      *Request
	stop     func() // closes the connection of the line
	tells    *lines
	out, err *plain
	reads    atomic.Bool // standard input is being read
	whole    []byte      // output to print when the line has ended
	held     []byte      // output to print when Write names it
	wrote    string      // ID of the last printed delivery
	printed  bool        // something was printed
	failed   error       // error of writing the output here
}

// run runs the line once. It returns errLost if the connection is lost.
func (r *running) run(ctx context.Context) (status int, err error) {
	body, writer := io.Pipe()
	defer body.Close()
	of := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.stop = cancel
	// net/http ignores ctx while it waits for the rest of a request body.
	defer context.AfterFunc(ctx, func() { body.CloseWithError(ctx.Err()) })()
	r.tells = &lines{out: writer}
	orchestrator.GoSafe("request", nil, func() { r.tells.write(told{Request: r.req}) })
	answer, err := r.client.do(ctx, RunPath, body)
	if err != nil {
		return 0, cmp.Or(of.Err(), err)
	}
	defer answer.Body.Close()
	orchestrator.GoSafe("signals", nil, func() { r.passSignals(ctx) })
	status, err = r.follow(newReader(answer.Body))
	switch {
	case err == nil || r.failed != nil:
		return status, r.failed
	case of.Err() != nil:
		return 0, of.Err()
	case r.wrote != "":
		if r.client.confirm(of, r.wrote); !r.GoesOn {
			return 0, nil
		}
	}
	return 0, fmt.Errorf("%w: %w", errLost, err)
}

// follow handles the messages of the other side, until the line has ended there.
func (r *running) follow(in reader) (status int, err error) {
	for {
		var w wanted
		if err := in.next(&w); err != nil {
			return 0, err
		}
		if w.Out == nil {
			r.flush()
		}
		switch {
		case w.Out != nil && r.Whole && len(r.whole)+len(w.Out) <= maxLine:
			r.whole = append(r.whole, w.Out...)
		case w.Out != nil:
			r.flush()
			r.write(r.out, w.Out)
		case w.Err != nil:
			r.write(r.err, w.Err)
		case w.Hold != nil || w.Write != "":
			if err = r.hold(w); err != nil && w.Write != "" {
				r.giveBack(in, w.Write)
			}
		case w.In > 0 && !r.reads.CompareAndSwap(false, true):
			return 0, errors.New("the other side asked for standard input twice")
		case w.In > 0:
			orchestrator.GoSafe("standard input", nil, func() {
				in := r.typed.read(w.In)
				if r.reads.Store(false); in != nil {
					r.tells.write(told{In: in})
				}
			})
		case w.Fresh && r.Fresh != nil:
			r.Fresh()
		case w.Ask != "":
			err = r.tells.write(told{Answer: r.answer(w.Ask)})
		case w.File != "":
			err = r.sendFile(w.File, w.Stat)
		case w.Status != nil:
			return *w.Status, r.failed
		}
		if err == nil {
			err = r.failed
		}
		if err != nil {
			return 0, err
		}
	}
}

// flush prints the output that was collected.
func (r *running) flush() {
	if whole := r.whole; whole != nil {
		r.whole = nil
		r.write(r.out, whole)
	}
}

func (r *running) write(to *plain, b []byte) {
	r.printed, r.wrote = true, ""
	if _, err := to.Write(b); err != nil && r.failed == nil {
		r.failed = err
	}
}

// hold collects output, prints it once Write names it, and confirms that.
func (r *running) hold(w wanted) error {
	if r.held = append(r.held, w.Hold...); len(r.held) > maxHeld {
		return errors.New("the answer from the other side is too large")
	}
	if w.Write == "" {
		return nil
	}
	r.write(r.out, r.held)
	if r.held = nil; r.failed != nil {
		return r.failed
	}
	r.wrote = w.Write
	return r.tells.write(told{Written: w.Write})
}

// giveBack reports that a delivery could not be printed, and returns once the line has ended. The messages in the
// delivery are unread again by then.
func (r *running) giveBack(in reader, id string) {
	defer time.AfterFunc(lastPiece, r.stop).Stop()
	err := r.tells.write(told{Unwritten: id})
	for w := new(wanted); err == nil && w.Status == nil; {
		err = in.next(w)
	}
}

// answer answers a question of the other side.
func (r *running) answer(question string) *piece {
	if r.Answer == nil {
		return &piece{Err: "no answer to the question " + question}
	}
	text, err := r.Answer(question)
	if err != nil {
		return &piece{Err: err.Error()}
	}
	return &piece{Bytes: text, End: true}
}

// sendFile sends a file that the command line names, in pieces, or only whether the file exists. It sends no other
// file.
func (r *running) sendFile(path string, stat bool) error {
	refuse := func(err error) error { return r.tells.write(told{Answer: &piece{Err: err.Error()}}) }
	if !r.req.names(path) {
		return refuse(fmt.Errorf("the command line does not name the file %s", path))
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

// names reports whether the line names a file to read, as @FILE or after --file.
func (req *Request) names(path string) bool {
	before := ""
	for _, word := range req.Args {
		if word == "--" {
			break
		}
		flag, value, _ := strings.Cut(word, "=")
		switch {
		case word == "@"+path, word == path && before == "--file", flag == "--file" && value == path,
			strings.HasPrefix(flag, "--") && value == "@"+path:
			return true
		}
		before = word
	}
	return false
}

// passSignals forwards signals to the other side.
func (r *running) passSignals(ctx context.Context) {
	for {
		select {
		case number := <-r.Signals:
			if r.tells.write(told{Signal: number}) != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// typed is standard input. It keeps what was read, so that a line that may run again can read the same input again.
type typed struct {
	in    io.Reader
	keeps bool

	turn  sync.Mutex // held by the current reader
	mu    sync.Mutex
	round int    // number of rewinds
	kept  []byte // input kept for reading again
	at    int    // length of the part of kept that was taken
	err   error
	lost  bool // part of the input is no longer kept
}

// maxKept is the maximum number of bytes kept for reading again.
const maxKept = 16 << 20

// read takes available input or waits for input. It returns nil if the input was rewound meanwhile.
func (t *typed) read(most int) *piece {
	t.mu.Lock()
	round := t.round
	t.mu.Unlock()
	t.turn.Lock()
	defer t.turn.Unlock()
	t.mu.Lock()
	waits := t.at == len(t.kept) && t.err == nil && round == t.round
	t.mu.Unlock()
	b, n, err := make([]byte, min(most, maxChunk)), 0, error(nil)
	if waits {
		n, err = t.in.Read(b)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept, t.err = append(t.kept, b[:n]...), cmp.Or(t.err, err)
	if round != t.round {
		return nil
	}
	p := &piece{Bytes: t.kept[t.at:min(len(t.kept), t.at+len(b))]}
	if t.at += len(p.Bytes); t.at == len(t.kept) && t.err != nil {
		if p.End = errors.Is(t.err, io.EOF); !p.End {
			p.Err = t.err.Error()
		}
	}
	if !t.keeps || len(t.kept) > maxKept {
		t.kept, t.at, t.lost = t.kept[t.at:], 0, true
	}
	return p
}

// rewind starts again at the beginning of the input, and reports whether all of the input is still kept.
func (t *typed) rewind() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.round++
	t.at = 0
	return !t.lost
}
