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

// line is a message as its recipient gets it: what means something to it, and nothing of the engine's own book-keeping
// (leases, times of attempts, idempotency keys). message_id comes first.
type line struct {
	MessageID   string              `json:"message_id"`
	Sender      string              `json:"sender"`
	Recipient   string              `json:"recipient"`
	Type        string              `json:"message_type"`
	Payload     json.RawMessage     `json:"payload"`
	Status      orchestrator.Status `json:"status"` // always delivered: whoever reads the line has the message
	CreatedAt   string              `json:"created_at"`
	RetryCount  int                 `json:"retry_count"` // retries that this delivery took
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

// writeLine appends one message to b as one line of JSON: UTF-8, no HTML escapes, numbers digit for digit. On an error
// b is as it was.
func writeLine(b *bytes.Buffer, m *orchestrator.Message) error {
	if !utf8.ValidString(m.ID) {
		// JSON cannot hold it, so that a crash could not be told from a success.
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

// block is the lines of an attempt, ready to be written at once.
type block struct {
	text []byte // begins with a newline, for the end of a torn line before it
	ends []int  // where each line ends in text
	of   []int  // which message of the attempt each line is of
}

// encode makes the block of those messages that can be written; the others get their error in errs.
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

// whole returns how many lines stand completely in the first n bytes of text, and where the last of them ends.
func (b *block) whole(n int) (lines, end int) {
	for lines < len(b.ends) && b.ends[lines] <= n {
		end = b.ends[lines]
		lines++
	}
	return lines, end
}

// search is what a look for a message in a file found.
type search struct {
	found bool
	first []byte // the first line looked at, without its newline
	text  []byte // the line that was found, with its newline
	at    int64  // and where it begins, from where the search began
}

// searchLine looks for the line of a message. A last line without its newline counts if it is complete but for that:
// the next writer would end it. ctx is looked at between lines.
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

// idOf returns the message_id of a line, "" for a line that is torn or something else.
func idOf(text []byte) string {
	var l struct {
		MessageID string `json:"message_id"`
	}
	if json.Unmarshal(text, &l) != nil {
		return ""
	}
	return l.MessageID
}
