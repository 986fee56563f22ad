package ledger

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"time"
	"unicode/utf8"

	"mailroom/orchestrator"
	"mailroom/orchestrator/jsonfault"
)

// Check checks a draft and returns it in its stored form. Error: invalid_params.
func Check(d orchestrator.Draft) (orchestrator.Draft, error) {
	var err error
	if d.Sender, err = orchestrator.CheckName("sender", d.Sender); err != nil {
		return d, err
	}
	if d.Recipient, err = orchestrator.CheckRecipient("recipient", d.Recipient); err != nil {
		return d, err
	}
	return CheckContent(d)
}

// CheckContent checks all of a draft except the names of the sender and the recipient, and returns it in its stored
// form.
func CheckContent(d orchestrator.Draft) (orchestrator.Draft, error) {
	var err error
	if d.Payload, err = checkPayload(d.Payload); err != nil {
		return d, err
	}
	for _, text := range []struct {
		name, value string
		limit       int
	}{
		{"message_type", d.Type, orchestrator.MaxType}, {"id", d.ID, orchestrator.MaxKey},
		{"idempotency_key", d.IdempotencyKey, orchestrator.MaxKey}, {"reply_to", d.ReplyTo, orchestrator.MaxKey},
		{"thread_id", d.ThreadID, orchestrator.MaxKey}, {"session_id", d.SessionID, orchestrator.MaxKey},
		{"summary", d.Summary, orchestrator.MaxText},
		{"context", d.Context, orchestrator.MaxText},
	} {
		if err := orchestrator.CheckText(text.name, text.value, text.limit); err != nil {
			return d, err
		}
	}
	if err := cmp.Or(orchestrator.CheckPlain("message_type", d.Type), orchestrator.CheckPlain("id", d.ID)); err != nil {
		return d, err
	}
	d.IdempotencyKey = cmp.Or(d.IdempotencyKey, d.ID) // a repeat has the same id
	switch {
	case d.Priority < -orchestrator.MaxPriority || d.Priority > orchestrator.MaxPriority:
		return d, orchestrator.Errorf(orchestrator.InvalidParams, "priority is %d, but must be from %d to %d", d.Priority,
			-orchestrator.MaxPriority, orchestrator.MaxPriority)
	case d.MaxRetries != nil && (*d.MaxRetries < 0 || *d.MaxRetries > 100):
		return d, orchestrator.Errorf(orchestrator.InvalidParams, "max_retries is %d, but must be from 0 to 100",
			*d.MaxRetries)
	case d.TTL != 0 && (d.TTL < time.Second || d.TTL > orchestrator.MaxTTL):
		return d, orchestrator.Errorf(orchestrator.InvalidParams, "ttl_seconds is %d, but must be from 1 to %d",
			int64(d.TTL/time.Second), int64(orchestrator.MaxTTL/time.Second))
	case d.Delay < 0 || d.Delay > orchestrator.MaxNotBefore:
		return d, orchestrator.Errorf(orchestrator.InvalidParams, "not_before must be from 0s to %[2]s in the future, but is %[1]s",
			orchestrator.FormatDuration(d.Delay), orchestrator.FormatDuration(orchestrator.MaxNotBefore))
	case d.AckWithin != 0 && (d.AckWithin < time.Second || d.AckWithin > orchestrator.MaxTTL):
		return d, orchestrator.Errorf(orchestrator.InvalidParams, "ack_within is %d, but must be from 1 to %d",
			int64(d.AckWithin/time.Second), int64(orchestrator.MaxTTL/time.Second))
	case d.Wake != "" && !slices.Contains(orchestrator.Wakes, d.Wake):
		return d, orchestrator.Errorf(orchestrator.InvalidParams, "wake is %q, but must be `now`, `rest`, or `never`", d.Wake)
	case d.Action != "" && d.Action != "queue" && d.Action != "interrupt":
		return d, orchestrator.Errorf(orchestrator.InvalidParams, "action is %q, but must be `queue` or `interrupt`", d.Action)
	}
	if d.Presence == "" {
		return d, nil
	}
	session, err := orchestrator.CheckName("session", cmp.Or(d.SessionID, orchestrator.DefaultSession))
	if d.SessionID != "" {
		d.SessionID = session
	}
	return d, err
}

// checkPayload returns a payload in its stored form: one JSON value without white space between its tokens.
func checkPayload(payload json.RawMessage) (json.RawMessage, error) {
	if payload == nil {
		return json.RawMessage("null"), nil
	}
	if len(payload) > orchestrator.MaxPayload {
		return nil, orchestrator.Errorf(orchestrator.InvalidParams, "payload has %d bytes, but the limit is %d",
			len(payload), orchestrator.MaxPayload).
			WithHint("Write the content to a file and send the path of the file")
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, payload); err != nil {
		hint, _ := jsonfault.Of(payload)
		return nil, &orchestrator.Error{Code: orchestrator.InvalidParams, Message: "payload is not valid JSON", Err: err,
			Hint: hint}
	}
	if payload = compact.Bytes(); IsDeep(payload) {
		return nil, orchestrator.Errorf(orchestrator.InvalidParams, "payload is nested more than %d levels deep", MaxDepth).
			WithHint("Send the payload as text, in a JSON string")
	}
	if !utf8.Valid(payload) {
		return nil, orchestrator.Errorf(orchestrator.InvalidParams, "payload must be valid UTF-8")
	}
	return payload, orchestrator.CheckPairs("payload", payload)
}

// MaxDepth is the maximum nesting of arrays and objects in a payload. Go's decoder accepts 10,000 levels, some of
// which the structure around a message needs.
const MaxDepth = 1000

// IsDeep reports whether a JSON text is nested more than MaxDepth levels deep.
func IsDeep(text []byte) bool {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			if depth++; depth > MaxDepth {
				return true
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return false
}
