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

// bridge relays messages between an MCP client and `mailroom mcp` at a place. After the connection is lost, it
// connects again and replays the initialization of the client to the new server. It repeats the calls that can safely
// be repeated. For the others, it tells the client that their outcome is unknown.
type bridge struct {
	p     *Program
	out   io.Writer
	alone func(lines []byte) []byte // answers requests without the place

	mu    sync.Mutex
	begun []*passed // the client's initialize and initialized messages
	open  []*passed // requests without an answer, in order of arrival
	feed  *queue    // input of the server; nil while there is no server
	ended bool      // the client's input has ended
}

// passed is a message of the client.
type passed struct {
	line     []byte
	id       string // as JSON; "" for a notification
	came     time.Time
	repeats  bool
	answered bool // the client has an answer; a later one from the server is dropped
}

// message holds the fields of a message that the bridge uses.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

const (
	againEvery = 2 * time.Second // longest pause before the next connection attempt
	soon       = time.Second     // time after which the bridge answers initialize and tools/list itself
	callsWait  = 5 * time.Second // how long a call waits for a connection
)

// bridge serves the client on standard input and output until the input or ctx ends. run runs the server at the place
// once. If the place is unreachable, bridge tries again without limit, because hosts do not restart a server that has
// exited.
func (p *Program) bridge(ctx context.Context, l *line, streams remote.Streams, run func(remote.Streams) error) error {
	// Errors go to standard error, since standard output belongs to the client.
	defer func() { p.Out, p.OutTerminal = p.Err, p.ErrTerminal }()
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

// read relays the messages of the client.
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

// pass records one message and relays it.
func (b *bridge) pass(line []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	m := b.note(line)
	if b.feed != nil {
		b.feed.Write(m.line)
	}
}

// note records a message that may have to be sent again over another connection.
func (b *bridge) note(line []byte) *passed {
	var m message
	_ = json.Unmarshal(line, &m) // the server answers malformed messages
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
		one.repeats = true // all other requests only read
		b.open = append(b.open, one)
	}
	return one
}

// callAgain returns a form of a tool call that can safely be repeated, if there is one. may reports whether there is.
func (p *Program) callAgain(line, params []byte) (_ []byte, may bool) {
	const key = "idempotency_key"
	var call struct {
		Name      string
		Arguments map[string]json.RawMessage
	}
	if json.Unmarshal(params, &call) != nil {
		return line, true // the server rejects it
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

// connect sends the recorded messages to a new server.
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

// disconnect answers the calls that cannot be repeated, whose outcome is unknown, and the calls that have waited
// longer than callsWait. It reports whether the client's input has ended.
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

// alone returns a function that answers requests about the available tools without the place. The answers match those
// of the place, since both have the same tools.
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

// answerAlone answers a request that the place has not yet answered.
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

// Write implements io.Writer. It relays the answers of the server, which are whole lines.
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

// repeated records that a request is answered, and reports whether the client already had an answer.
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

// queue is a pipe whose writer never blocks, because reading from a connection must not wait for writing to it.
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

// Write appends to the data to be read.
func (q *queue) Write(b []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.changed.Broadcast()
	return q.text.Write(b)
}

// Read blocks until there is data, or the queue is closed.
func (q *queue) Read(b []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.text.Len() == 0 && !q.closed {
		q.changed.Wait()
	}
	return q.text.Read(b)
}

// Close marks the end of the data.
func (q *queue) Close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.changed.Broadcast()
	return nil
}
