package orchestrator

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf16"
)

// JSON encodes v like json.Marshal, but does not escape <, > and &, and replaces lone surrogates as Mended does.
func JSON(v any) ([]byte, error) {
	text, err := Unmended(v)
	return Mended(text), err
}

// Unmended encodes v without HTML escapes and keeps lone surrogates, so that the caller can still detect them.
func Unmended(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Mended replaces each lone surrogate in JSON text, such as \ud83d, by \ufffd and returns text. Strict parsers
// reject a whole text that contains a lone surrogate. Mended changes text in place; the length stays the same.
func Mended(text []byte) []byte {
	for at := halfPair(text, 0); at >= 0; at = halfPair(text, at+escape) {
		copy(text[at:], `\ufffd`)
	}
	return text
}

// CheckPairs returns an error if JSON text contains a lone surrogate, in a value or in a key. The error is
// invalid_params and names the parameter.
func CheckPairs(parameter string, text []byte) error {
	at := halfPair(text, 0)
	if at < 0 {
		return nil
	}
	return InvalidParam(parameter, "the text contains half of a surrogate pair, which is not a valid character").
		WithHint("The other half of %s is missing. Cut text between two characters, not within an emoji, or replace the half with \\ufffd",
			text[at:at+escape])
}

// WithoutMark returns text without a leading UTF-8 byte order mark, which PowerShell and some editors write.
func WithoutMark(text []byte) []byte { return bytes.TrimPrefix(text, []byte("\ufeff")) }

// escape is the length of \ud83d in bytes.
const escape = len(`\ud83d`)

// halfPair returns the index of the first lone surrogate in JSON text, or -1 if there is none. The search starts at
// from, which must not be within an escape. Most texts contain no \u at all, so halfPair checks for that first.
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

// unitAt returns the UTF-16 code unit of the \u escape at the beginning of text, or -1 if text begins with no such
// escape.
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

// JSONString returns s as a JSON string. Bytes that are not valid UTF-8 become U+FFFD.
func JSONString(s string) json.RawMessage {
	text, err := JSON(strings.ToValidUTF8(s, "\uFFFD"))
	if err != nil {
		panic(err) // a string always encodes
	}
	return text
}

// Compacted returns JSON without space between its tokens. If text is not valid JSON, Compacted returns it
// unchanged.
func Compacted(text json.RawMessage) []byte {
	var b bytes.Buffer
	if json.Compact(&b, text) != nil {
		return text
	}
	return b.Bytes()
}
