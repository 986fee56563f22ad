package transport

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"mailroom/orchestrator"
)

// line is a message in the form that its recipient gets. It leaves out the engine's own fields (leases, times of
// attempts, idempotency keys). message_id comes first.
type line struct {
	MessageID   string              `json:"message_id"`
	Sender      string              `json:"sender"`
	Recipient   string              `json:"recipient"`
	Type        string              `json:"message_type"`
	Payload     json.RawMessage     `json:"payload"`
	Status      orchestrator.Status `json:"status"` // always delivered: the reader of the line has the message
	CreatedAt   string              `json:"created_at"`
	RetryCount  int                 `json:"retry_count"` // retries before this delivery
	Priority    int                 `json:"priority"`
	Summary     string              `json:"summary,omitempty"`
	Context     string              `json:"context,omitempty"`
	Action      string              `json:"action,omitempty"`
	ThreadID    string              `json:"thread_id,omitempty"`
	SessionID   string              `json:"session_id,omitempty"`
	ReplyTo     string              `json:"reply_to,omitempty"`
	MulticastID string              `json:"multicast_id,omitempty"`
	Group       string              `json:"multicast_target,omitempty"`
	ExpiresAt   string              `json:"expires_at,omitempty"`
	TraceID     string              `json:"trace_id,omitempty"`
	SpanID      string              `json:"span_id,omitempty"`
}

// writeLine appends one message to b as one line of JSON: UTF-8, no HTML escapes, numbers digit for digit. On an
// error b is unchanged.
func writeLine(b *bytes.Buffer, m *orchestrator.Message) error {
	if !utf8.ValidString(m.ID) {
		// JSON cannot represent the ID, so a delivered line could not be found again after a crash.
		return fmt.Errorf("the message id %q is not UTF-8", m.ID)
	}
	if !utf8.Valid(m.Payload) {
		return errors.New("the payload is not UTF-8")
	}
	start := b.Len()
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(line{
		MessageID: m.ID, Sender: m.Sender, Recipient: m.Recipient, Type: m.Type, Payload: m.Payload,
		Status: orchestrator.Delivered, CreatedAt: m.CreatedAt, RetryCount: m.RetryCount, Priority: m.Priority,
		Summary: m.Summary, Context: m.Context, Action: m.Action, ThreadID: m.ThreadID, SessionID: m.SessionID,
		ReplyTo: m.ReplyTo, MulticastID: m.MulticastID, Group: m.Group, ExpiresAt: m.ExpiresAt, TraceID: m.TraceID,
		SpanID: m.SpanID,
	})
	if err != nil {
		b.Truncate(start)
		return fmt.Errorf("cannot encode the message as JSON: %w", err)
	}
	return nil
}

// block holds the lines of an attempt, to be written at once.
type block struct {
	text []byte // begins with a newline, to end a torn line before it
	ends []int  // end of each line in text
	of   []int  // index of each line's message in the attempt
}

// encode makes a block of the messages that can be encoded, and stores the errors of the others in errs.
func encode(ms []orchestrator.Message, errs []error) block {
	b := bytes.NewBufferString("\n")
	var out block
	for i := range ms {
		if errs[i] = writeLine(b, &ms[i]); errs[i] == nil {
			out.ends, out.of = append(out.ends, b.Len()), append(out.of, i)
		}
	}
	out.text = b.Bytes()
	return out
}

// whole returns the number of lines that are complete in the first n bytes of text, and the end of the last one.
func (b *block) whole(n int) (lines, end int) {
	for lines < len(b.ends) && b.ends[lines] <= n {
		end = b.ends[lines]
		lines++
	}
	return lines, end
}

// search is the result of a search for a message in a file.
type search struct {
	found bool
	first []byte // the first line searched, without its newline
	text  []byte // the line that was found, with its newline
	at    int64  // the offset of that line from the start of the search
}

// searchLine searches for the line of a message. A last line counts if it lacks only its newline, because the next
// writer would end it. searchLine checks ctx between lines.
func searchLine(ctx context.Context, r io.Reader, id string) (s search, err error) {
	reader := bufio.NewReaderSize(r, 256<<10)
	needle := orchestrator.JSONString(id)
	for at := int64(0); ; {
		text, err := reader.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return s, err
		}
		if at == 0 {
			s.first = bytes.TrimSuffix(text, []byte("\n"))
		}
		if bytes.Contains(text, needle) && idOf(text) == id {
			s.found, s.at = true, at
			s.text = append(bytes.TrimSuffix(text, []byte("\n")), '\n')
			return s, nil
		}
		if err != nil {
			return s, nil
		}
		if ctx.Err() != nil {
			return s, context.Cause(ctx)
		}
		at += int64(len(text))
	}
}

// idOf returns the message_id of a line, or "" if the line is torn or is not a message.
func idOf(text []byte) string {
	var l struct {
		MessageID string `json:"message_id"`
	}
	if json.Unmarshal(text, &l) != nil {
		return ""
	}
	return l.MessageID
}
