package exports

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"mailroom/orchestrator/store"
	"mailroom/tracing"
	"mailroom/tracing/otlp"
)

// Maximum lengths of exported texts, in bytes.
const (
	maxText = 4 << 10 // of a payload, an error or an output
	maxName = 256     // of anything else, since other programs may write any text
)

// commandRow is a row of command_trace.
type commandRow struct {
	id                        int64
	traceID, spanID, parentID string
	name, kind                string
	startedAt, endedAt        string
	status, failure           string
	actor, caller, attributes string
}

func commandOf(row store.Row) commandRow {
	return commandRow{
		id: row.Int(0), traceID: row.Text(1), spanID: row.Text(2), parentID: row.Text(3), name: row.Text(4),
		kind:      row.Text(5),
		startedAt: row.Text(6), endedAt: row.Text(7), status: row.Text(8), failure: row.Text(9), actor: row.Text(10),
		caller: row.Text(11), attributes: row.Text(12),
	}
}

// command makes the span of a command.
func (r *reader) command(row *commandRow) *otlp.Span {
	s := &otlp.Span{
		TraceID: r.traceID(row.traceID), SpanID: r.spanID(row.spanID), Name: otlp.Clip(row.name, maxName),
		Kind: kinds[row.kind], Start: otlp.Nanos(timeOf(row.startedAt)), End: otlp.Nanos(timeOf(row.endedAt)),
		Attributes: r.commandAttributes(row),
	}
	if row.parentID != "" {
		s.ParentID = r.spanID(row.parentID)
	}
	s.Kind = max(s.Kind, otlp.KindInternal)
	switch row.status {
	case "OK":
		s.Status.Code = otlp.CodeOK
	case "ERROR":
		s.Status.Code = otlp.CodeError
		if r.texts {
			s.Status.Message = otlp.Clip(row.failure, maxText)
		}
	}
	return s
}

var kinds = map[string]otlp.Kind{
	string(tracing.Internal): otlp.KindInternal, string(tracing.Server): otlp.KindServer,
	string(tracing.Client):   otlp.KindClient,
	string(tracing.Producer): otlp.KindProducer, string(tracing.Consumer): otlp.KindConsumer,
}

// plainAttributes lists the attributes of a command that are names, ids or numbers. All others may be texts.
var plainAttributes = []string{tracing.AttrSystem, tracing.AttrOperation, tracing.AttrOperationType,
	tracing.AttrDestination, tracing.AttrMessageID,
	tracing.AttrConversationID, tracing.AttrBatchCount, tracing.AttrErrorType}

func (r *reader) commandAttributes(row *commandRow) (list []otlp.Attribute) {
	var all map[string]any
	d := json.NewDecoder(bytes.NewReader([]byte(row.attributes)))
	d.UseNumber()
	_ = d.Decode(&all) // the row may have been changed by hand
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if plain := slices.Contains(plainAttributes, key); plain || r.texts {
			list = append(list, attribute(key, all[key], plain))
		}
	}
	return append(list, named("mailroom.actor", row.actor, "mailroom.caller", row.caller)...)
}

// attribute makes an attribute from a JSON value.
func attribute(key string, value any, plain bool) otlp.Attribute {
	limit := maxText
	if plain {
		limit = maxName
	}
	key = otlp.Clip(key, maxName)
	switch v := value.(type) {
	case bool:
		return otlp.Flag(key, v)
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return otlp.Number(key, n)
		}
		if n, err := v.Float64(); err == nil {
			return otlp.Fraction(key, n)
		}
		return otlp.Text(key, otlp.Clip(v.String(), limit))
	case string:
		return otlp.Text(key, otlp.Clip(v, limit))
	}
	text, _ := json.Marshal(value) // value was decoded from JSON
	return otlp.Text(key, otlp.Clip(string(text), limit))
}

// named makes attributes from keys and values. It leaves out keys whose value is empty.
func named(pairs ...string) (list []otlp.Attribute) {
	for pair := range slices.Chunk(pairs, 2) {
		if pair[1] != "" {
			list = append(list, otlp.Text(pair[0], otlp.Clip(pair[1], maxName)))
		}
	}
	return list
}

// traceID returns a trace id in the form that receivers accept. A valid id is returned as it is; an id is derived
// from any other text.
func (r *reader) traceID(id string) string {
	if low := strings.ToLower(id); otlp.IsTraceID(low) {
		return low
	}
	return otlp.TraceID(r.database, "trace", id)
}

// spanID returns a span id in the form that receivers accept. An id is derived from any text that is not a span id.
func (r *reader) spanID(id string) string {
	if low := strings.ToLower(id); otlp.IsSpanID(low) {
		return low
	}
	return otlp.SpanID(r.database, "span", id)
}

// timeOf parses a time. It returns the zero time for text that is not a time, such as one changed by hand.
func timeOf(text string) time.Time {
	at, _ := time.Parse(time.RFC3339Nano, text)
	return at
}
