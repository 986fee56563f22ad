// Package letter reads and writes messages as files in the form of document 002.
package letter

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"mailroom/orchestrator"
)

// waiting is the status of a message in an inbox folder.
const waiting = "pending"

// Letter is a message in the form of document 002. An encoded letter has the document's keys first, in the document's
// order. The non-empty fields of other vocabularies that the document has no key for come next, and then the unknown
// keys.
type Letter struct {
	ID       string          // required
	From, To string          // required; as written, so their case may differ from the agents' names
	Type     string          // required
	Priority string          // one of orchestrator.Priorities
	Payload  json.RawMessage // required; one JSON value
	About
	More []Member // all other keys, in their order

	file []byte // the text that Parse read, if Encode would write another
}

// Member is a key of a JSON object and its value.
type Member struct {
	Key   string
	Value json.RawMessage
}

// About holds the fields of a letter in addition to the message itself.
type About struct {
	Timestamp       string `json:"timestamp,omitempty"` // when it was written; a file may contain any text
	Status          string `json:"status,omitempty"`
	ReplyTo         string `json:"replyTo,omitempty"` // "" is null; may be an unknown message id
	Summary         string `json:"summary,omitempty"`
	Context         string `json:"context,omitempty"`
	Action          string `json:"action,omitempty"`
	ThreadID        string `json:"thread_id,omitempty"`
	SessionID       string `json:"session_id,omitempty"`
	MulticastID     string `json:"multicast_id,omitempty"`
	MulticastTarget string `json:"multicast_target,omitempty"`
	ExpiresAt       string `json:"expires_at,omitempty"`
}

// origin is the content of Message.Origin: everything in a file except the message itself. The columns of a row that
// was made from a file hold some of these values too, but next to values of the engine's own, such as its session and
// its expiry.
type origin struct {
	About
	More json.RawMessage `json:"more,omitempty"` // an object
	File string          `json:"file,omitempty"` // the whole file, if its layout differs from that of Encode
}

// Of makes the letter of a row. A message that came from a file keeps everything that was in the file: its times, its
// unknown keys and its layout. The layout is lost if the row now has another sender, recipient, type, priority or
// payload.
func Of(m *orchestrator.Message) Letter {
	var from origin
	if m.Origin == "" || json.Unmarshal([]byte(m.Origin), &from) != nil { // none, or written by hand and invalid
		from = origin{About: About{Summary: m.Summary, Context: m.Context, Action: m.Action, SessionID: m.SessionID,
			ExpiresAt: m.TTLEnd()}}
		if from.SessionID == orchestrator.DefaultSession {
			from.SessionID = "" // the default session is omitted
		}
	}
	l := Letter{
		ID: m.ID, From: m.Sender, To: m.Recipient, Type: m.Type, Priority: orchestrator.PriorityWord(m.Priority),
		Payload: m.Payload,
		About:   from.About,
	}
	l.Timestamp, l.Status, l.ReplyTo = cmp.Or(l.Timestamp, created(m)), cmp.Or(l.Status, waiting),
		cmp.Or(m.ReplyTo, l.ReplyTo)
	l.ThreadID, l.MulticastID = cmp.Or(l.ThreadID, m.ThreadID), cmp.Or(l.MulticastID, m.MulticastID)
	l.MulticastTarget = cmp.Or(l.MulticastTarget, m.Group)
	if len(from.More) > 0 {
		l.More, _ = members(from.More) // invalid if written by hand; then there are none
	}
	if from.File != "" {
		l.file = []byte(from.File)
	}
	return l
}

// created returns the creation time of a row in the document's format. It returns text that is not a time unchanged.
func created(m *orchestrator.Message) string {
	at, err := time.Parse(time.RFC3339Nano, m.CreatedAt)
	if err != nil {
		return m.CreatedAt
	}
	return timestamp(at)
}

// timestamp formats a time as the document does: UTC, with seven fractional digits.
func timestamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.0000000Z") }

// Origin returns the text that orchestrator.Message.Origin stores for a letter of another program, so that Of makes
// the same letter again.
func (l Letter) Origin() string {
	o := origin{About: l.About, File: string(l.file)}
	if len(l.More) > 0 {
		o.More = object(l.More)
	}
	return string(marshal(o))
}

// Draft returns the letter as a message to send. Its ReplyTo may be the id of an unknown message.
func (l Letter) Draft() orchestrator.Draft {
	return orchestrator.Draft{
		Sender: l.From, Recipient: l.To, Type: l.Type, Payload: l.Payload,
		Priority: orchestrator.PriorityOf(l.Priority),
		ReplyTo:  l.ReplyTo, Summary: l.Summary, Context: l.Context, Action: l.Action, ThreadID: l.ThreadID,
		SessionID: l.SessionID, Origin: l.Origin(),
	}
}

// Encode writes the letter as a file: indented by two spaces, without HTML escapes, with the digits of the payload
// and the order of the keys unchanged, with a newline at the end, and Mended. The same letter always gives the same
// bytes. A letter from Parse gives the bytes that were parsed. Error: a text or a payload that JSON cannot represent.
func (l Letter) Encode() ([]byte, error) {
	if l.file != nil {
		if read, err := parse(l.file); err == nil && read.says(&l) {
			return orchestrator.Mended(bytes.Clone(l.file)), nil
		}
	}
	if !utf8.Valid(l.Payload) {
		return nil, errors.New("the payload must be UTF-8")
	}
	if !json.Valid(l.Payload) {
		return nil, errors.New("the payload must be valid JSON")
	}
	var list []Member
	taken := map[string]bool{}
	for _, k := range append(l.columns(), l.extras()...) {
		if !utf8.ValidString(*k.text) {
			return nil, fmt.Errorf("%s must be UTF-8, but is %q", k.key, *k.text)
		}
		value := json.RawMessage(marshal(*k.text))
		switch {
		case k.key == "payload":
			value = l.Payload
		case *k.text != "" || k.required:
		case k.key == "replyTo":
			value = json.RawMessage("null")
		default:
			continue
		}
		list = append(list, Member{k.key, value})
		taken[k.key] = true
	}
	for _, m := range l.More {
		if !taken[m.Key] {
			list = append(list, m)
		}
	}
	var b bytes.Buffer
	if err := json.Indent(&b, object(list), "", "  "); err != nil {
		return nil, fmt.Errorf("a field in the message is not valid JSON: %w", err)
	}
	b.WriteByte('\n')
	return orchestrator.Mended(b.Bytes()), nil
}

// text is a key with a text value.
type text struct {
	key      string
	text     *string
	required bool // written even if empty
}

// columns returns the keys of the document, in its order. The payload is not text, so its entry only marks its
// position.
func (l *Letter) columns() []text {
	return []text{
		{"id", &l.ID, true}, {"from", &l.From, true}, {"to", &l.To, true}, {"type", &l.Type, true},
		{"priority", &l.Priority, true}, {"payload", new(string), true}, {"timestamp", &l.Timestamp, true},
		{"status", &l.Status, true}, {"replyTo", &l.ReplyTo, false},
	}
}

// extras returns the keys that the document does not define.
func (l *Letter) extras() []text {
	return []text{
		{"summary", &l.Summary, false}, {"context", &l.Context, false}, {"action", &l.Action, false},
		{"thread_id", &l.ThreadID, false}, {"session_id", &l.SessionID, false}, {"multicast_id", &l.MulticastID, false},
		{"multicast_target", &l.MulticastTarget, false}, {"expires_at", &l.ExpiresAt, false},
	}
}

// says reports whether l, which was read from a file, still equals other. Names are compared without case, because
// the engine stores them in lower case. A timestamp that the file lacked is ignored.
func (l *Letter) says(other *Letter) bool {
	same := l.ID == other.ID && strings.EqualFold(l.From, other.From) && strings.EqualFold(l.To, other.To) &&
		l.Type == other.Type && l.Priority == other.Priority && l.Status == other.Status &&
		l.ReplyTo == other.ReplyTo &&
		(l.Timestamp == other.Timestamp || l.Timestamp == "") &&
		bytes.Equal(orchestrator.Compacted(l.Payload), orchestrator.Compacted(other.Payload)) &&
		bytes.Equal(object(l.More), object(other.More))
	theirs := other.extras()
	for i, mine := range l.extras() {
		same = same && *mine.text == *theirs[i].text
	}
	return same
}

// object encodes members as a JSON object on one line.
func object(list []Member) json.RawMessage {
	b := []byte{'{'}
	for i, m := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(b, marshal(m.Key)...), ':'), orchestrator.Compacted(m.Value)...)
	}
	return append(b, '}')
}

// marshal encodes a value that is always valid in JSON, without HTML escapes.
func marshal(v any) []byte {
	text, err := orchestrator.JSON(v)
	if err != nil {
		panic(err) // only texts, and members that were read from JSON
	}
	return text
}
