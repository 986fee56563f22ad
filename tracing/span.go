// Package tracing writes down what happened: one command_trace row per command run and one message_trace row per event
// in a message's life, always through the transaction of the change itself.
//
// Names and ids are OpenTelemetry's, so that the tables can be exported as they stand: 16-byte trace ids, 8-byte span
// ids, lower-case hex, and attribute names of the messaging conventions.
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

// Span is one run of one command. It is safe for concurrent use through its methods; the exported fields are set by
// Start and are not changed afterwards.
type Span struct {
	TraceID      string // 32 hex digits
	SpanID       string // 16 hex digits
	ParentSpanID string // 16 hex digits, or "" for a root
	Name         string
	Kind         Kind
	Caller       string // agent that asked; "" is the administrator
	Scheduled    bool   // started by a schedule: left out of the trace when it changed nothing

	mu         sync.Mutex
	started    time.Time
	attributes map[string]any
	saved      bool
	written    time.Time // the end, and what went wrong, that Save wrote last
	failure    string
	open       bool        // its row has no end until End is called
	ended      bool        // End was called
	endedAt    time.Time   // the end, which does not change any more; zero until it is known
	timer      *time.Timer // set by MarkSaved
	stop       func()      // ends what the timer started, and waits for it; nil before that
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
// malformed one is ignored, as the specification asks (part 3.2.2).
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

// Traceparent returns a span as a W3C Trace Context header; "" when its ids are none.
func Traceparent(traceID, spanID string) string {
	if len(traceID) != 32 || len(spanID) != 16 || !isHex(traceID) || !isHex(spanID) ||
		strings.Trim(traceID, "0") == "" || strings.Trim(spanID, "0") == "" {
		return ""
	}
	return "00-" + traceID + "-" + spanID + "-01"
}

// Start begins a span named after a command. Its parent is the span already in ctx, else what WithParent put there.
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

// FromContext returns the span of the command that is running, or nil.
func FromContext(ctx context.Context) *Span {
	s, _ := ctx.Value(spanKey{}).(*Span)
	return s
}

// Set records an attribute; values are strings, numbers or booleans.
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

// Begin sets the time of the start; a second call changes nothing.
func (s *Span) Begin(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started.IsZero() {
		s.started = at
	}
}

// Saved reports whether a transaction that committed has written the span.
func (s *Span) Saved() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.saved
}

// OpenAfter is how long after a span was first saved its row is left without an end, if its command is still at work.
// Most commands write their row once, and it names that time as their end. Only for those that take longer is it
// written anew, without one.
const OpenAfter = 2 * time.Second

// SettledAfter is how long after the end that a row names the command has ended for certain: OpenAfter, and what it may
// take to write the row without an end.
const SettledAfter = 6 * time.Second

// MarkSaved notes that the transaction which wrote the span has committed. If the span has not ended OpenAfter after
// the first call, saveOpen is called, once, in a goroutine of its own: it should write the span with SaveOpen before
// its context ends, which it does when End is called.
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

// End notes that the command has ended: what is saved of it from now on, as by work that it left in the background,
// changes neither its end nor its outcome, unless that is a failure. It reports whether the row says that the command
// is still at work, so that Save must be called once more.
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

// Settled reports whether the command has ended and its row has the end: nothing need be written of it any more.
func (s *Span) Settled() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.endedAt.IsZero()
}

// Within returns a context in which what is done belongs to a span, nil for none.
func Within(ctx context.Context, s *Span) context.Context {
	if s == nil {
		return ctx
	}
	return context.WithValue(ctx, spanKey{}, s)
}

// Traceparent returns the span as a W3C Trace Context header, for handing on to whatever the command starts.
func (s *Span) Traceparent() string { return Traceparent(s.TraceID, s.SpanID) }

// spanIDs counts up from a random start, so that the ids of one process stand side by side in the index of
// command_trace: random ones would each change a page of their own, and a send would write three times as much. Two
// processes make the same id as rarely as if each id were random.
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

// newTraceID returns an id that begins with the time, for the same reason; the other 80 bits are random, of which the
// specification of random trace ids (Trace Context level 2, part 2.2.3.5) asks for 56.
func newTraceID() string {
	b := binary.BigEndian.AppendUint64(nil, uint64(time.Now().UnixMilli())<<16)
	b = append(b, make([]byte, 8)...)
	rand.Read(b[6:])
	return hex.EncodeToString(b)
}

func isHex(s string) bool { return s != "" && strings.Trim(s, "0123456789abcdef") == "" }
