package browsertest

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"

	"mailroom/orchestrator"
)

// bidi is a connection that controls a browser. Source: W3C, WebDriver BiDi.
type bidi struct {
	socket *websocket.Conn
	event  func(method string, params json.RawMessage)

	mu      sync.Mutex
	last    int
	waiting map[int]chan bidiMessage
	broken  error // read error; set when reading has ended
}

// bidiMessage is an answer or an event.
type bidiMessage struct {
	Type    string // success, error, event
	ID      int
	Result  json.RawMessage
	Error   string
	Message string
	Method  string
	Params  json.RawMessage
}

// connectBiDi connects to a browser. event gets every event, from a single goroutine that it must not block.
func connectBiDi(ctx context.Context, t *testing.T, address string, event func(string, json.RawMessage)) *bidi {
	t.Helper()
	socket, _, err := websocket.Dial(ctx, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	socket.SetReadLimit(32 << 20)
	b := &bidi{socket: socket, event: event, waiting: map[int]chan bidiMessage{}}
	ended := make(chan struct{})
	t.Cleanup(func() {
		socket.CloseNow()
		<-ended
	})
	orchestrator.GoSafe("WebDriver BiDi", nil, func() {
		defer close(ended)
		b.read(t.Context()) // longer than ctx, so that a failure can still be examined
	})
	return b
}

func (b *bidi) read(ctx context.Context) {
	for {
		var m bidiMessage
		if err := wsjson.Read(ctx, b.socket, &m); err != nil {
			b.mu.Lock()
			b.broken = fmt.Errorf("the browser is gone: %w", err)
			for _, answer := range b.waiting {
				close(answer)
			}
			b.waiting = nil
			b.mu.Unlock()
			return
		}
		if m.Type == "event" {
			b.event(m.Method, m.Params)
			continue
		}
		b.mu.Lock()
		if answer := b.waiting[m.ID]; answer != nil {
			answer <- m
			delete(b.waiting, m.ID)
		}
		b.mu.Unlock()
	}
}

// bidiError is an error answer. Code is an error code of the protocol.
type bidiError struct{ Method, Code, Message string }

func (e *bidiError) Error() string { return e.Method + ": " + e.Code + ": " + e.Message }

// call calls a method and waits for its answer, which it decodes into result unless result is nil.
func (b *bidi) call(ctx context.Context, method string, params, result any) error {
	b.mu.Lock()
	if b.broken != nil {
		b.mu.Unlock()
		return b.broken
	}
	b.last++
	id, answer := b.last, make(chan bidiMessage, 1)
	b.waiting[id] = answer
	b.mu.Unlock()
	if err := wsjson.Write(ctx, b.socket, map[string]any{"id": id, "method": method, "params": params}); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	select {
	case m, ok := <-answer:
		switch {
		case !ok:
			return fmt.Errorf("%s: %w", method, b.broken)
		case m.Type == "error":
			return &bidiError{method, m.Error, m.Message}
		case result == nil:
			return nil
		}
		return json.Unmarshal(m.Result, result)
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", method, context.Cause(ctx))
	}
}
