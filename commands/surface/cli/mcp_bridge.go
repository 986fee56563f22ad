package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	urfave "github.com/urfave/cli/v2"

	"mailroom/commands"
	"mailroom/commands/surface"
	"mailroom/commands/surface/mcp"
	"mailroom/commands/surface/remote"
	"mailroom/orchestrator"
)

// bridge passes the messages of an MCP client on to `mailroom mcp` in a place, and what comes back. When the connection is lost
// it makes another, and has the server there learn what the client has said of itself. Calls that can be repeated are; of the
// others the client is told that their outcome is not known.
type bridge struct {
	p     *Program
	out   io.Writer
	alone func(lines []byte) []byte // what this program answers without the place

	mu    sync.Mutex
	begun []*passed // initialize, and that the client has taken note of its answer
	open  []*passed // requests without an answer, in the order in which they came
	feed  *queue    // to the server; nil while there is none
	ended bool      // the client says nothing more
}

// passed is a message of the client.
type passed struct {
	line     []byte
	id       string // as JSON; "" is a notification
	came     time.Time
	repeats  bool
	answered bool // the client has the answer: what comes from the server it does not get
}

// message is what counts of a message.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

const (
	againEvery = 2 * time.Second // bounds the pause before another connection is made
	soon       = time.Second     // after which a client is told which tools there are, though the place has not answered
	callsWait  = 5 * time.Second // how long a call waits for a connection
)

// bridge serves the client of standard input and output until that ends, or ctx does. run runs the server there once. A place
// that cannot be reached is tried again and again: hosts do not start a server anew that has ended.
func (p *Program) bridge(ctx context.Context, l *line, streams remote.Streams, run func(remote.Streams) error) error {
	defer func() { p.Out, p.OutTerminal = p.Err, p.ErrTerminal }() // an error goes there, since standard output is the client's
	alone, err := p.alone(l)
	if err != nil {
		return err
	}
	b := &bridge{p: p, out: streams.Out, alone: alone}
	client := streams.In
	orchestrator.GoSafe("standard input", nil, func() { b.read(client) })
	told := ""
	streams.Out, streams.GoesOn = b, true
	for pause := againEvery / 8; ; pause = min(2*pause, againEvery) {
		began := time.Now()
		feed := newQueue()
		b.connect(feed)
		streams.In = feed
		err := run(streams)
		feed.Close()
		away := orchestrator.CodeOf(err) == orchestrator.Unavailable
		if err == nil || !away || b.disconnect(err) {
			return err
		}
		if told != err.Error() {
			told = err.Error()
			fmt.Fprintf(p.Err, "mailroom: %v\n", err)
		}
		if time.Since(began) > againEvery {
			pause = againEvery / 8
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return exit(128 + int(stoppedBy(ctx)))
		}
	}
}

// read passes on what the client says.
func (b *bridge) read(in io.Reader) {
	lines := bufio.NewReaderSize(in, 64<<10)
	for {
		line, long, err := surface.ReadLine(lines, nil)
		if !long && len(bytes.TrimSpace(line)) > 0 {
			b.pass(append(bytes.TrimSpace(line), '\n'))
		}
		if err != nil {
			b.mu.Lock()
			defer b.mu.Unlock()
			if b.ended = true; b.feed != nil {
				b.feed.Close()
			}
			return
		}
	}
}

// pass notes one message, and passes it on.
func (b *bridge) pass(line []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.note(line)
	if b.feed != nil {
		b.feed.Write(m.line)
	}
}

// note notes what is to be said again over another connection.
func (b *bridge) note(line []byte) *passed {
	var m message
	_ = json.Unmarshal(line, &m) // the server answers what is no message
	one := &passed{line: line, id: string(m.ID), came: time.Now()}
	if m.Method == "initialize" || m.Method == "tools/list" {
		time.AfterFunc(soon, func() { b.answerAlone(one) })
	}
	switch {
	case m.Method == "initialize":
		b.begun, one.repeats = []*passed{one}, true
	case m.Method == "notifications/initialized":
		b.begun = append(b.begun, one)
	case m.Method == "notifications/cancelled":
		var of struct {
			ID json.RawMessage `json:"requestId"`
		}
		if json.Unmarshal(m.Params, &of) == nil {
			b.open = slices.DeleteFunc(b.open, func(open *passed) bool { return open.id == string(of.ID) })
		}
	case m.Method == "tools/call":
		one.line, one.repeats = b.p.callAgain(line, m.Params)
		b.open = append(b.open, one)
	case one.id != "" && m.Method != "":
		one.repeats = true // all others only look
		b.open = append(b.open, one)
	}
	return one
}

// callAgain returns the call of a tool in a form in which it does no more if it comes twice, if there is such.
func (p *Program) callAgain(line, params []byte) (_ []byte, may bool) {
	const key = "idempotency_key"
	var call struct {
		Name      string
		Arguments map[string]json.RawMessage
	}
	if json.Unmarshal(params, &call) != nil {
		return line, true // the server refuses it
	}
	for _, d := range p.Catalogue.All() {
		if d.Name != call.Name && d.Tool != call.Name {
			continue
		}
		if d.Card().OnlyReads() || d.Hands() || call.Arguments[key] != nil {
			return line, true
		}
		for _, param := range d.Params() {
			if param.Name == key {
				return withArgument(line, key, uuid.NewString()), true
			}
		}
		return line, false
	}
	return line, false
}

// withArgument adds an argument to the call of a tool.
func withArgument(line []byte, name, value string) []byte {
	var m, params, arguments map[string]json.RawMessage
	err := errors.Join(json.Unmarshal(line, &m), json.Unmarshal(m["params"], &params))
	if given := params["arguments"]; err == nil && given != nil {
		err = json.Unmarshal(given, &arguments)
	}
	if err != nil {
		return line
	}
	if arguments == nil {
		arguments = map[string]json.RawMessage{}
	}
	arguments[name] = orchestrator.JSONString(value)
	for _, part := range []struct {
		in   map[string]json.RawMessage
		name string
		is   any
	}{{params, "arguments", arguments}, {m, "params", params}} {
		text, err := orchestrator.Unmended(part.is)
		if err != nil {
			return line
		}
		part.in[part.name] = text
	}
	text, err := orchestrator.Unmended(m)
	if err != nil {
		return line
	}
	return append(text, '\n')
}

// connect has a new server learn what was said so far.
func (b *bridge) connect(feed *queue) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range slices.Concat(b.begun, b.open) {
		feed.Write(m.line)
	}
	if b.feed = feed; b.ended {
		feed.Close()
	}
}

// disconnect has the client learn what became of the calls that cannot be repeated, and of those that wait for too long, and
// reports whether it has ended.
func (b *bridge) disconnect(why error) (ended bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.feed = nil
	b.open = slices.DeleteFunc(b.open, func(m *passed) bool {
		text := ""
		if !m.repeats && remote.Lost(why) {
			text = "The connection to the database was lost, so the outcome is unknown. Before you call the tool again, check whether this call took effect."
		} else if !m.answered && time.Since(m.came) > callsWait {
			text = "Cannot reach the database: " + why.Error() + ". Call the tool again later."
		}
		if text == "" {
			return false
		}
		answer, err := orchestrator.JSON(map[string]any{"jsonrpc": "2.0", "id": json.RawMessage(m.id), "result": map[string]any{
			"isError": true, "content": []any{map[string]any{"type": "text", "text": text}}}})
		if err == nil {
			b.out.Write(append(bytes.TrimSpace(answer), '\n'))
		}
		return true
	})
	return b.ended
}

// alone returns what answers without the place which tools there are, as the place would, since both have the same ones.
func (p *Program) alone(l *line) (func(lines []byte) []byte, error) {
	var vocabularies []string
	admin := false
	parser := p.parser(l)
	parser.Action = func(c *urfave.Context) (err error) {
		vocabularies, err = p.vocabularies(strings.Join(c.StringSlice("vocabulary"), ","))
		caller, failed := p.caller(c)
		admin = caller.Name == "" || c.Bool("admin")
		return errors.Join(err, failed)
	}
	if err := parser.Run(l.argv()); err != nil {
		return nil, err
	}
	return func(lines []byte) []byte {
		var out bytes.Buffer
		env := commands.Env{Catalogue: p.Catalogue, Log: slog.New(slog.DiscardHandler), Caller: commands.Caller{Admin: admin}}
		if mcp.NewServer(env, p.Version).Serve(context.Background(), bytes.NewReader(lines), &out, vocabularies...) != nil {
			return nil
		}
		return out.Bytes()
	}, nil
}

// answerAlone answers a request if the place has not.
func (b *bridge) answerAlone(m *passed) {
	b.mu.Lock()
	var lines []byte
	for _, before := range b.begun {
		if before != m {
			lines = append(lines, before.line...)
		}
	}
	waits := !m.answered && (slices.Contains(b.begun, m) || slices.Contains(b.open, m))
	b.mu.Unlock()
	if !waits {
		return
	}
	said := b.alone(append(lines, m.line...))
	b.mu.Lock()
	defer b.mu.Unlock()
	for line := range bytes.Lines(said) {
		var answer message
		if json.Unmarshal(line, &answer) == nil && answer.Method == "" && string(answer.ID) == m.id && !m.answered {
			m.answered = true
			b.out.Write(line)
		}
	}
}

// Write implements io.Writer: it passes on what the server answers, whole lines.
func (b *bridge) Write(text []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for line := range bytes.Lines(text) {
		var m message
		if json.Unmarshal(line, &m) == nil && m.Method == "" && b.repeated(string(m.ID)) {
			continue
		}
		if _, err := b.out.Write(line); err != nil {
			return 0, err
		}
	}
	return len(text), nil
}

// repeated notes that a request is answered, and reports whether the client has an answer already.
func (b *bridge) repeated(id string) (answered bool) {
	for _, m := range slices.Concat(b.begun, b.open) {
		if m.id == id && id != "" {
			answered, m.answered = m.answered, true
			break
		}
	}
	b.open = slices.DeleteFunc(b.open, func(m *passed) bool { return m.id == id })
	return answered
}

// queue is a pipe whose writer never waits: what is read and written on a connection must not wait for each other.
type queue struct {
	mu      sync.Mutex
	changed *sync.Cond
	text    bytes.Buffer
	closed  bool
}

func newQueue() *queue {
	q := &queue{}
	q.changed = sync.NewCond(&q.mu)
	return q
}

// Write adds to what is to be read.
func (q *queue) Write(b []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.changed.Broadcast()
	return q.text.Write(b)
}

// Read waits for something to read.
func (q *queue) Read(b []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.text.Len() == 0 && !q.closed {
		q.changed.Wait()
	}
	return q.text.Read(b)
}

// Close ends what is to be read.
func (q *queue) Close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.changed.Broadcast()
	return nil
}
