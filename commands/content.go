package commands

import (
	"bytes"
	"encoding/json"

	"mailroom/orchestrator"
)

// Content is what a message says, apart from the form that its vocabulary gave it. Every vocabulary renders messages of
// the others with it. Source: contract.md, "what stands in payload".
type Content struct {
	Text     string          // what to read; JSON when the payload is no text
	Data     json.RawMessage // structured data beside the text; nil when there is none
	Mentions []string        // agents that were mentioned
	Protocol string          // type of a team's protocol object, which Data then is; "" for any other message
}

// ContentOf takes a message's payload apart:
//
//	"text"                               text
//	{"message": "text"}                  text
//	{"message": "text", "payload": ...}  text and data
//	{"content": "text", "mentions": []}  text and mentions
//	{"type": a protocol's, ...}          the object as text and as data
//	null                                 nothing
//	anything else                        itself as text and as data
//
// An object with any further key is the last: nothing of a payload is dropped.
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

// CheckFits refuses a payload that a vocabulary made of its parameters and that is too large. The caller gave the
// parameter and knows of no payload.
func CheckFits(parameter string, payload json.RawMessage) error {
	if len(payload) <= orchestrator.MaxPayload {
		return nil
	}
	return orchestrator.InvalidParam(parameter,
		"the message must have at most %d bytes as JSON, including escapes and its other fields, but has %d",
		orchestrator.MaxPayload, len(payload)).WithHint("Write the content to a file and send its path")
}

// textWith reads an object that has a text under one key and nothing else but, perhaps, a value under another.
func textWith(fields map[string]json.RawMessage, key, other string) (text string, value json.RawMessage, ok bool) {
	value, has := fields[other]
	if len(fields) > 2 || (len(fields) == 2 && !has) {
		return "", nil, false
	}
	said := fields[key]
	ok = len(said) > 0 && said[0] == '"' && json.Unmarshal(said, &text) == nil
	return text, value, ok
}
