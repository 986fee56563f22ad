package orchestrator

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"
)

// check validates a draft and brings it into the form in which it is stored.
func (d Draft) check() (Draft, error) {
	var err error
	if d.Sender, err = CheckName("sender", d.Sender); err != nil {
		return d, err
	}
	if d.Recipient, err = CheckRecipient("recipient", d.Recipient); err != nil {
		return d, err
	}
	return d.checkContent()
}

// checkContent is check without the names.
func (d Draft) checkContent() (Draft, error) {
	if d.Payload == nil {
		d.Payload = json.RawMessage("null")
	}
	if len(d.Payload) > MaxPayload {
		return d, Errorf(InvalidParams, "payload has %d bytes; at most %d are allowed", len(d.Payload), MaxPayload).
			WithHint("Write the content to a file and send its path")
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, d.Payload); err != nil {
		return d, &Error{Code: InvalidParams, Message: "payload is not JSON", Err: err, Hint: QuotingHint(d.Payload)}
	}
	d.Payload = compact.Bytes()
	if !utf8.Valid(d.Payload) {
		return d, Errorf(InvalidParams, "payload is not valid UTF-8")
	}
	for _, text := range []struct {
		name, value string
		limit       int
	}{
		{"message_type", d.Type, MaxType}, {"id", d.ID, maxKey}, {"idempotency_key", d.IdempotencyKey, maxKey}, {"reply_to", d.ReplyTo, maxKey},
		{"thread_id", d.ThreadID, maxKey}, {"session_id", d.SessionID, maxKey}, {"summary", d.Summary, maxText},
		{"context", d.Context, maxText},
	} {
		switch {
		case len(text.value) > text.limit:
			return d, Errorf(InvalidParams, "%s has %d bytes; at most %d are allowed", text.name, len(text.value), text.limit)
		case strings.ContainsRune(text.value, 0) || !utf8.ValidString(text.value):
			return d, Errorf(InvalidParams, "%s holds a NUL or is not valid UTF-8", text.name)
		}
	}
	if err := checkPlain("message_type", d.Type); err != nil {
		return d, err
	}
	if err := checkPlain("id", d.ID); err != nil {
		return d, err
	}
	switch {
	case d.Priority < -MaxPriority || d.Priority > MaxPriority:
		return d, Errorf(InvalidParams, "priority is %d; it goes from %d to %d", d.Priority, -MaxPriority, MaxPriority)
	case d.MaxRetries != nil && (*d.MaxRetries < 0 || *d.MaxRetries > 100):
		return d, Errorf(InvalidParams, "max_retries is %d; it goes from 0 to 100", *d.MaxRetries)
	case d.TTL != 0 && (d.TTL < time.Second || d.TTL > MaxTTL):
		return d, Errorf(InvalidParams, "ttl_seconds is %d; it goes from 1 to %d", int64(d.TTL/time.Second), int64(MaxTTL/time.Second))
	case d.Delay < 0 || d.Delay > MaxNotBefore:
		return d, Errorf(InvalidParams, "not_before lies %s ahead; at most %s are allowed", FormatDuration(d.Delay), FormatDuration(MaxNotBefore))
	case d.AckWithin != 0 && (d.AckWithin < time.Second || d.AckWithin > MaxTTL):
		return d, Errorf(InvalidParams, "ack_within is %d; it goes from 1 to %d", int64(d.AckWithin/time.Second), int64(MaxTTL/time.Second))
	case d.Action != "" && d.Action != "queue" && d.Action != "interrupt":
		return d, Errorf(InvalidParams, "action is %q; it is queue or interrupt", d.Action)
	}
	if d.Presence == "" {
		return d, nil
	}
	session, err := CheckName("session", cmp.Or(d.SessionID, DefaultSession))
	if d.SessionID != "" {
		d.SessionID = session
	}
	return d, err
}
