package commands

import (
	"bytes"
	"encoding/json"

	"mailroom/orchestrator"
)

// Content is the content of a message, independent of the form that its vocabulary gave it. A vocabulary uses it to
// render messages that were sent with another vocabulary. Source: contract.md, "what stands in payload".
type Content struct {
	Text     string          // text to read; JSON if the payload is not text
	Data     json.RawMessage // structured data beside the text; nil if there is none
	Mentions []string        // mentioned agents
	Protocol string          // type of the team protocol object in Data; "" for any other message
}

// ContentOf splits the payload of a message into text, data and mentions:
//
//	"text"                               text
//	{"message": "text"}                  text
//	{"message": "text", "payload": ...}  text and data
//	{"content": "text", "mentions": []}  text and mentions
//	{"type": a protocol's, ...}          the object as text and as data
//	null                                 nothing
//	anything else                        itself as text and as data
//
// An object with any further key falls under the last case, so that no part of a payload is dropped.
func ContentOf(m *orchestrator.Message) Content {
	var text string
	if json.Unmarshal(m.Payload, &text) == nil && len(m.Payload) > 0 && m.Payload[0] == '"' {
		return Content{Text: text}
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(m.Payload, &fields) == nil && fields != nil {
		if text, data, ok := textWith(fields, "message", "payload"); ok {
			return Content{Text: text, Data: data}
		}
		if text, names, ok := textWith(fields, "content", "mentions"); ok {
			c := Content{Text: text}
			if names == nil || json.Unmarshal(names, &c.Mentions) == nil {
				return c
			}
		}
	}
	if string(bytes.TrimSpace(m.Payload)) == "null" {
		return Content{}
	}
	c := Content{Text: string(m.Payload), Data: m.Payload}
	if json.Unmarshal(fields["type"], &text) == nil {
		switch text {
		case orchestrator.ShutdownRequest, orchestrator.ShutdownResponse, orchestrator.PlanApprovalRequest,
			orchestrator.PlanApprovalResponse:
			c.Protocol = text
		}
	}
	return c
}

// CheckFits returns an error if a payload that a vocabulary built from its parameters is too large. The error names
// the parameter, because the caller did not write the payload.
func CheckFits(parameter string, payload json.RawMessage) error {
	if len(payload) <= orchestrator.MaxPayload {
		return nil
	}
	return orchestrator.InvalidParam(parameter,
		"the message must have at most %d bytes as JSON, including escapes and its other fields, but has %d",
		orchestrator.MaxPayload, len(payload)).WithHint("Write the content to a file and send its path")
}

// textWith reads an object that has a text under key and no other member except, optionally, a value under other.
func textWith(fields map[string]json.RawMessage, key, other string) (text string, value json.RawMessage, ok bool) {
	value, has := fields[other]
	if len(fields) > 2 || (len(fields) == 2 && !has) {
		return "", nil, false
	}
	said := fields[key]
	ok = len(said) > 0 && said[0] == '"' && json.Unmarshal(said, &text) == nil
	return text, value, ok
}
