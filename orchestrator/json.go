package orchestrator

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf16"
)

// JSON returns v as JSON, like json.Marshal, but with <, > and & as they are, and Mended.
func JSON(v any) ([]byte, error) {
	text, err := Unmended(v)
	return Mended(text), err
}

// Unmended is JSON for what is still to be checked: it leaves half of a surrogate pair where it stands.
func Unmended(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Mended puts U+FFFD in place of each half of a surrogate pair that stands alone in JSON text, such as \ud83d: strict
// readers give up on all of a text that has one. It changes text itself, whose length stays, and returns it.
func Mended(text []byte) []byte {
	for at := halfPair(text, 0); at >= 0; at = halfPair(text, at+escape) {
		copy(text[at:], `\ufffd`)
	}
	return text
}

// CheckPairs refuses JSON text in which half of a surrogate pair stands alone, in a value or a key. Error:
// invalid_params, which names the parameter.
func CheckPairs(parameter string, text []byte) error {
	at := halfPair(text, 0)
	if at < 0 {
		return nil
	}
	return InvalidParam(parameter, "the text contains half of a surrogate pair, which is not a valid character").
		WithHint("The other half of %s is missing. Cut text between two characters, not within an emoji, or replace the half with \\ufffd",
			text[at:at+escape])
}

// WithoutMark returns a text without the byte order mark of UTF-8 at its beginning, which PowerShell and some editors
// write.
func WithoutMark(text []byte) []byte { return bytes.TrimPrefix(text, []byte("\ufeff")) }

// escape is how many bytes \ud83d has.
const escape = len(`\ud83d`)

// halfPair returns where the first half of a surrogate pair stands alone in JSON text, from a place on that is not
// within an escape; -1 if there is none. Most texts have no \u at all, and are not looked at further.
func halfPair(text []byte, from int) int {
	if !bytes.Contains(text[from:], []byte(`\u`)) {
		return -1
	}
	for at := from; ; {
		next := bytes.IndexByte(text[at:], '\\')
		if next < 0 {
			return -1
		}
		at += next
		switch unit := unitAt(text[at:]); {
		case unit < 0:
			at += min(2, len(text)-at) // another escape
		case !utf16.IsSurrogate(unit):
			at += escape
		case utf16.DecodeRune(unit, unitAt(text[at+escape:])) == '\uFFFD':
			return at
		default:
			at += 2 * escape
		}
	}
}

// unitAt returns the UTF-16 unit that an escape at the beginning of a text stands for; -1 if none does.
func unitAt(text []byte) rune {
	if len(text) < escape || text[0] != '\\' || text[1] != 'u' {
		return -1
	}
	unit, err := strconv.ParseUint(string(text[2:escape]), 16, 16)
	if err != nil {
		return -1
	}
	return rune(unit)
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
