package transport

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"mailroom/orchestrator"
)

// cloudEvent is a message as a webhook gets it: a CloudEvents 1.0 event in structured mode. Source: CloudEvents 1.0.2,
// its JSON format and its extension for distributed tracing.
type cloudEvent struct {
	SpecVersion     string          `json:"specversion"`
	ID              string          `json:"id"`
	Source          string          `json:"source"`
	Type            string          `json:"type"`
	Subject         string          `json:"subject,omitempty"`
	Time            string          `json:"time,omitempty"`
	DataContentType string          `json:"datacontenttype"`
	Traceparent     string          `json:"traceparent,omitempty"`
	Data            json.RawMessage `json:"data"` // the same object as a line of a file
}

// encodeEvent makes the body of a request. It depends on the message alone, so that a repeat after a crash is the same to
// the byte. A message that cannot be written as JSON, or has no id, is an error.
func encodeEvent(m *orchestrator.Message) ([]byte, error) {
	if m.ID == "" {
		return nil, errors.New("the message has no id, by which a repeat could be known")
	}
	var data bytes.Buffer
	if err := writeLine(&data, m); err != nil {
		return nil, err
	}
	e := cloudEvent{
		SpecVersion: "1.0", ID: m.ID, Source: "/mailroom/agents/" + safe(m.Sender), Type: "mailroom.message",
		Subject: m.Recipient, DataContentType: "application/json", Traceparent: m.Traceparent(), Data: data.Bytes(),
	}
	if m.Type != "" {
		e.Type += "." + safe(m.Type)
	}
	if _, err := time.Parse(time.RFC3339, m.CreatedAt); err == nil {
		e.Time = m.CreatedAt
	}
	body, err := orchestrator.JSON(e)
	if err != nil {
		return nil, fmt.Errorf("the message cannot be written as a CloudEvent: %w", err)
	}
	return body, nil
}

// safe writes a name that others chose so that it can stand in a header, a URI and the name of a type: letters, digits,
// - and _ as they are, everything else percent-encoded. Two names never become one. A full stop is encoded too, since
// full stops part what is signed.
func safe(name string) string {
	return strings.NewReplacer("+", "%20", ".", "%2E", "~", "%7E").Replace(url.QueryEscape(name))
}
