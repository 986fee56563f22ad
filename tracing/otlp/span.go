// Package otlp sends spans to an OpenTelemetry receiver: OTLP over HTTP, in its JSON encoding. Source: the OTLP
// Specification 1.x (opentelemetry.io/docs/specs/otlp) and opentelemetry-proto's trace.proto. It does not use the
// database.
package otlp

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Span is a span as it is sent to the receiver. IDs are lower-case hex, as the JSON encoding requires.
type Span struct {
	TraceID    string      `json:"traceId"` // 32 digits
	SpanID     string      `json:"spanId"`  // 16 digits
	ParentID   string      `json:"parentSpanId,omitempty"`
	Name       string      `json:"name"`
	Kind       Kind        `json:"kind"`
	Start      Nanos       `json:"startTimeUnixNano"`
	End        Nanos       `json:"endTimeUnixNano"`
	Attributes []Attribute `json:"attributes,omitempty"`
	Links      []Link      `json:"links,omitempty"`
	Status     Status      `json:"status"`
}

// Kind is a SpanKind. Enumerations are numbers in the JSON encoding.
type Kind int

// The kinds of spans.
const (
	KindInternal Kind = iota + 1
	KindServer
	KindClient
	KindProducer
	KindConsumer
)

// Nanos is a time. In JSON it is a string of digits, as are all 64-bit numbers; the zero time is "0".
type Nanos time.Time

// MarshalJSON implements json.Marshaler.
func (n Nanos) MarshalJSON() ([]byte, error) {
	at := int64(0)
	if t := time.Time(n); !t.IsZero() {
		at = max(0, t.UnixNano())
	}
	return []byte(`"` + strconv.FormatInt(at, 10) + `"`), nil
}

// Link refers to another span.
type Link struct {
	TraceID string `json:"traceId"`
	SpanID  string `json:"spanId"`
}

// Status is the outcome of the operation that a span describes.
type Status struct {
	Message string     `json:"message,omitempty"`
	Code    StatusCode `json:"code,omitempty"`
}

// StatusCode is the code of a Status; the zero value is unset.
type StatusCode int

// The codes other than unset.
const (
	CodeOK StatusCode = iota + 1
	CodeError
)

// Attribute is one attribute of a span, or of the resource that sends it.
type Attribute struct {
	Key   string `json:"key"`
	Value any    `json:"value"`
}

// Text returns an attribute with a string. Invalid UTF-8 is replaced.
func Text(key, value string) Attribute {
	return Attribute{key, map[string]string{"stringValue": strings.ToValidUTF8(value, "\uFFFD")}}
}

// Number returns an attribute with a whole number.
func Number(key string, value int64) Attribute {
	return Attribute{key, map[string]string{"intValue": strconv.FormatInt(value, 10)}}
}

// Fraction returns an attribute with a floating-point number.
func Fraction(key string, value float64) Attribute {
	return Attribute{key, map[string]float64{"doubleValue": value}}
}

// Flag returns an attribute with a boolean.
func Flag(key string, value bool) Attribute {
	return Attribute{key, map[string]bool{"boolValue": value}}
}

// Clip cuts a text to at most limit bytes, between characters.
func Clip(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}

// TraceID derives a trace ID from strings that identify an object. The result is always the same for the same
// strings, so that a receiver can recognize repeated spans.
func TraceID(of ...string) string { return derive(32, of) }

// SpanID derives a span ID from strings that identify an object. The result is always the same for the same strings.
func SpanID(of ...string) string { return derive(16, of) }

func derive(digits int, of []string) string {
	h := sha256.New()
	for _, part := range of {
		h.Write([]byte(strconv.Itoa(len(part)) + ":" + part))
	}
	return hex.EncodeToString(h.Sum(nil))[:digits]
}

// IsTraceID reports whether a text is a valid trace ID: 32 lower-case hex digits, not all 0.
func IsTraceID(id string) bool { return len(id) == 32 && isID(id) }

// IsSpanID reports whether a text is a valid span ID: 16 lower-case hex digits, not all 0.
func IsSpanID(id string) bool { return len(id) == 16 && isID(id) }

func isID(id string) bool {
	return strings.Trim(id, "0") != "" && strings.Trim(id, "0123456789abcdef") == ""
}

// Scope names the component that created spans.
type Scope struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
}
