package orchestrator

import (
	"bytes"
	"encoding/json"
	"strings"
)

// JSON returns v as JSON, like json.Marshal, but with <, > and & as they are.
func JSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// JSONString returns a text as a JSON string. Bytes that are not UTF-8 become U+FFFD.
func JSONString(s string) json.RawMessage {
	text, err := JSON(strings.ToValidUTF8(s, "\uFFFD"))
	if err != nil {
		panic(err) // a string always encodes
	}
	return text
}

// Compacted returns JSON without space between its tokens. Anything else is returned as it is.
func Compacted(text json.RawMessage) []byte {
	var b bytes.Buffer
	if json.Compact(&b, text) != nil {
		return text
	}
	return b.Bytes()
}
