package orchestrator

import (
	"bytes"
	"encoding/json"
	"strings"
)

// JSON returns a value as JSON with <, > and & as they are, which json.Marshal escapes, and without a newline behind it. It fails
// for what json.Marshal fails for.
func JSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// JSONString returns a text as a JSON string. What is not UTF-8 in it becomes U+FFFD.
func JSONString(s string) json.RawMessage {
	text, err := JSON(strings.ToValidUTF8(s, "\uFFFD"))
	if err != nil {
		panic(err) // a string always encodes
	}
	return text
}

// Compacted returns a JSON text without space between its tokens. What is no JSON stays as it is.
func Compacted(text json.RawMessage) []byte {
	var b bytes.Buffer
	if json.Compact(&b, text) != nil {
		return text
	}
	return b.Bytes()
}
