package mcp

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestIDIsFound checks that the ID of a message is found at any place in the message, in any number of pieces, and
// despite errors after it.
func TestIDIsFound(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"id":7}`: `7`, `{"id":"a\"},b"}`: `"a\"},b"`, `{"method":"x","params":{"id":1,"a":[{"id":2}]},"id":3}`: `3`,
		`{"id":1,"id":2}`:                     `2`,
		"\ufeff\t{ \"id\" : -7 , \"method\":": `-7`, `{"\u0069d":7}`: `7`, `{"id":7.5,`: `7.5`,
		`{"id":7} {"id":8}`:                `7`,
		`{"params":"{\"id\":1}","id":2,"x`: `2`, `{"a":"\\","id":2}`: `2`,
		`{"id":7`: `null`, `{"id":"a`: `null`, `{"ID":7}`: `null`, `{"id":null}`: `null`, `{"id":[1]}`: `null`,
		`{"id":{"id":1}}`: `null`, `{"id":true}`: `null`,
		`{"id":12x}`: `null`, `[{"id":7}]`: `null`, `7`: `null`, ``: `null`, `{}`: `null`, `"{\"id\":7}"`: `null`,
		`{"params":{"id":7}}`:                         `null`,
		`{"id":"` + strings.Repeat("x", maxID) + `"}`: `null`, `{"id":` + strings.Repeat("[", 1<<20): `null`,
	} {
		var whole, pieces idFinder
		whole.read([]byte(text))
		for _, c := range []byte(text) {
			pieces.read([]byte{c})
		}
		if got := string(whole.found()); got != want {
			t.Errorf("the id of %.60s is %s; want %s", text, got, want)
		}
		if got := string(pieces.found()); got != want {
			t.Errorf("in pieces, the id of %.60s is %s; want %s", text, got, want)
		}
	}
}

// FuzzIDIsFound compares the result with that of a JSON decoder, if the text is JSON.
func FuzzIDIsFound(f *testing.F) {
	for _, text := range []string{`{"id":7,"a":{"id":8}}`, `{"a":"\"","id":"x\\"}`, `[{"id":1}]`, `{"id":[],"id":-1e3}`,
		`{"x":"{","y":[}],"id":0}`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var find idFinder
		find.read([]byte(text))
		var members map[string]json.RawMessage
		if !json.Valid([]byte(text)) || json.Unmarshal([]byte(text), &members) != nil || len(members["id"]) > maxID {
			return
		}
		want := "null"
		if id := members["id"]; id != nil && strings.IndexByte(`"-0123456789`, id[0]) >= 0 {
			want = string(id)
		}
		if got := string(find.found()); got != want {
			t.Errorf("the id of %q is %s; want %s", text, got, want)
		}
	})
}
