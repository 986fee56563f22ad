// Package tracing records what happened: one command_trace row per command run and one message_trace row per event in
// a message's life. Each row is written in the transaction of the change itself.
//
// Names and IDs follow OpenTelemetry, so that the tables can be exported unchanged: 16-byte trace IDs and 8-byte span
// IDs in lower-case hex, and attribute names of the messaging conventions.
package tracing

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Span is one run of one command. Its methods are safe for concurrent use; the exported fields are set by Start and
// do not change afterwards.
type Span struct {
	TraceID      string // 32 hex digits
	SpanID       string // 16 hex digits
	ParentSpanID string // 16 hex digits, or "" for a root
	Name         string
	Kind         Kind
	Caller       string // agent that ran the command; "" is the administrator
	Scheduled    bool   // started by a schedule: omitted from the trace if it changed nothing

	mu         sync.Mutex
	started    time.Time
	attributes map[string]any
	saved      bool
	written    time.Time // the end and the error that Save wrote last
	failure    string
	open       bool        // its row has no end until End is called
	ended      bool        // End was called
	endedAt    time.Time   // the final end; zero until it is known
	timer      *time.Timer // set by MarkSaved
	stop       func()      // ends the work that the timer started, and waits for it; nil before that
}

// Kind is an OpenTelemetry span kind.
type Kind string

// The span kinds in use.
const (
	Internal Kind = "INTERNAL"
	Producer Kind = "PRODUCER"
	Consumer Kind = "CONSUMER"
	Client   Kind = "CLIENT"
	Server   Kind = "SERVER"
)

// Attribute names of the OpenTelemetry messaging conventions.
const (
	AttrSystem         = "messaging.system"
	AttrOperation      = "messaging.operation.name"
	AttrOperationType  = "messaging.operation.type"
	AttrDestination    = "messaging.destination.name"
	AttrMessageID      = "messaging.message.id"
	AttrConversationID = "messaging.message.conversation_id"
	AttrBatchCount     = "messaging.batch.message_count"
	AttrErrorType      = "error.type"
	AttrDirectory      = "file.directory"
)

type spanKey struct{}
type parentKey struct{}

type parent struct{ traceID, spanID string }

// WithParent returns a context whose next span is a child of traceparent, a W3C Trace Context header of version 00. A
// malformed header is ignored, as the specification requires (part 3.2.2).
func WithParent(ctx context.Context, traceparent string) context.Context {
	parts := strings.Split(strings.TrimSpace(traceparent), "-")
	if len(parts) < 4 || len(parts[0]) != 2 || !isHex(parts[0]) || parts[0] == "ff" ||
		(parts[0] == "00" && len(parts) != 4) {
		return ctx
	}
	if Traceparent(parts[1], parts[2]) == "" {
		return ctx
	}
	return context.WithValue(ctx, parentKey{}, parent{parts[1], parts[2]})
}

// Traceparent formats a span as a W3C Trace Context header. It returns "" if an ID is invalid.
func Traceparent(traceID, spanID string) string {
	if len(traceID) != 32 || len(spanID) != 16 || !isHex(traceID) || !isHex(spanID) ||
		strings.Trim(traceID, "0") == "" || strings.Trim(spanID, "0") == "" {
		return ""
	}
	return "00-" + traceID + "-" + spanID + "-01"
}

// Start begins a span named after a command. Its parent is the span already in ctx, or else the one from WithParent.
func Start(ctx context.Context, name string) (context.Context, *Span) {
	s := &Span{Name: name, Kind: Internal, SpanID: newSpanID()}
	if up := FromContext(ctx); up != nil {
		s.TraceID, s.ParentSpanID = up.TraceID, up.SpanID
	} else if p, ok := ctx.Value(parentKey{}).(parent); ok {
		s.TraceID, s.ParentSpanID = p.traceID, p.spanID
	} else {
		s.TraceID = newTraceID()
	}
	return context.WithValue(ctx, spanKey{}, s), s
}

// FromContext returns the span of the running command, or nil.
func FromContext(ctx context.Context) *Span {
	s, _ := ctx.Value(spanKey{}).(*Span)
	return s
}

// Set records an attribute. Values are strings, numbers or booleans.
func (s *Span) Set(name string, value any) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.attributes == nil {
		s.attributes = map[string]any{}
	}
	s.attributes[name] = value
}

// Begin sets the start time. A second call has no effect.
func (s *Span) Begin(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started.IsZero() {
		s.started = at
	}
}

// Saved reports whether a committed transaction has written the span.
func (s *Span) Saved() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.saved
}

// OpenAfter is how long after a span was first saved its row is rewritten without an end, if its command is still
// running. Most commands write their row once, with the time of the write as their end. Only the rows of longer
// commands are rewritten.
const OpenAfter = 2 * time.Second

// SettledAfter is how long after the end in a row the command has certainly ended: OpenAfter, plus the time that it
// may take to write the row without an end.
const SettledAfter = 6 * time.Second

// MarkSaved records that the transaction that wrote the span has committed. If the span has not ended within
// OpenAfter of the first call, saveOpen is called once, in its own goroutine. It should write the span with SaveOpen
// before its context ends; the context ends when End is called.
func (s *Span) MarkSaved(saveOpen func(ctx context.Context)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.saved = true; s.timer == nil && !s.ended && !s.open {
		s.timer = time.AfterFunc(OpenAfter, func() { s.stillAtWork(saveOpen) })
	}
}

func (s *Span) stillAtWork(saveOpen func(ctx context.Context)) {
	s.mu.Lock()
	if s.ended {
		s.mu.Unlock()
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	defer close(done)
	s.stop = func() {
		cancel()
		<-done
	}
	s.mu.Unlock()
	saveOpen(ctx)
}

// LeaveOpen makes Save write the row without an end, until End is called.
func (s *Span) LeaveOpen() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = true
}

// End records that the command has ended. Later saves, such as those of background work, change neither its end nor
// its outcome, except that they can record a failure. End reports whether the row shows the command as running, so
// that Save must be called once more.
func (s *Span) End() (unended bool) {
	s.mu.Lock()
	s.ended = true
	if s.timer != nil {
		s.timer.Stop()
	}
	stop := s.stop
	s.mu.Unlock()
	if stop != nil {
		stop()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.saved && !s.open {
		s.endedAt = s.written
	}
	return s.open
}

// Settled reports whether the command has ended and its row has the end, so that nothing more has to be written.
func (s *Span) Settled() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.endedAt.IsZero()
}

// Within returns a context in which work belongs to a span. If the span is nil, it returns ctx.
func Within(ctx context.Context, s *Span) context.Context {
	if s == nil {
		return ctx
	}
	return context.WithValue(ctx, spanKey{}, s)
}

// Traceparent returns the span as a W3C Trace Context header, to pass on to programs that the command starts.
func (s *Span) Traceparent() string { return Traceparent(s.TraceID, s.SpanID) }

// spanIDs counts up from a random start, so that the IDs of one process are adjacent in the index of command_trace.
// Random IDs would each change a different page, and a send would write three times as much. A collision between two
// processes is as unlikely as with random IDs.
var spanIDs = sync.OnceValue(func() *atomic.Uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails; see crypto/rand
	n := new(atomic.Uint64)
	n.Store(binary.BigEndian.Uint64(b[:]))
	return n
})

func newSpanID() string {
	n := spanIDs().Add(1)
	if n == 0 {
		n = spanIDs().Add(1) // the specification forbids it
	}
	return hex.EncodeToString(binary.BigEndian.AppendUint64(nil, n))
}

// newTraceID returns an ID that begins with the time, so that new IDs are adjacent in the index. The other 80 bits
// are random; the specification of random trace IDs (Trace Context level 2, part 2.2.3.5) requires 56.
func newTraceID() string {
	b := binary.BigEndian.AppendUint64(nil, uint64(time.Now().UnixMilli())<<16)
	b = append(b, make([]byte, 8)...)
	rand.Read(b[6:])
	return hex.EncodeToString(b)
}

func isHex(s string) bool { return s != "" && strings.Trim(s, "0123456789abcdef") == "" }
