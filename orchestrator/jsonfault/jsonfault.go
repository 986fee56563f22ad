// Package jsonfault says what is wrong with JSON that somebody wrote by hand.
package jsonfault

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Of says what is wrong with a text that is not JSON, and where, for who wrote it by hand. hint is what to do about it,
// as the most likely cause has it. err is nil for JSON.
func Of(text []byte) (hint string, err error) {
	err = json.Unmarshal(text, new(json.RawMessage))
	var syntax *json.SyntaxError
	switch {
	case !errors.As(err, &syntax):
		return "", err
	case len(bytes.TrimSpace(text)) == 0:
		return "It must be JSON", errors.New("there is nothing to read")
	}
	if missing, opened := unclosed(text); missing != "" && int(syntax.Offset) >= len(text) {
		return missingHint(text, missing),
			fmt.Errorf("it is not JSON: it ends before the %c at character %d is closed", text[opened],
				characters(text, opened))
	}
	at := max(0, min(int(syntax.Offset)-1, len(text)-1))
	_, expected, _ := strings.Cut(syntax.Error(), "' ")
	for _, own := range [][2]string{
		{"looking for beginning of object key string", "where a key in double quotes must begin"},
		{"looking for beginning of value", "where a value must begin"},
		{"after object key:value pair", "where a comma or } must stand"},
		{"after object key", "where a colon must stand"},
		{"after array element", "where a comma or ] must stand"},
		{"after top-level value", "after the end of the JSON"},
	} {
		expected = strings.Replace(expected, own[0], own[1], 1)
	}
	stands, _ := utf8.DecodeRune(text[at:])
	shown := string(stands)
	if unicode.IsControl(stands) {
		shown = strconv.Quote(shown)
	}
	return faultHint(text, at),
		fmt.Errorf("it is not JSON: character %d is %s, %s", characters(text, at), shown,
			cmp.Or(expected, syntax.Error()))
}

// characters returns which character, counted from 1, stands at a byte.
func characters(text []byte, at int) int { return utf8.RuneCount(text[:at]) + 1 }

// unclosed returns what the innermost string, object or list that a text leaves open is to be closed with, and where
// that was opened; "" where all is closed.
func unclosed(text []byte) (missing string, opened int) {
	var open []int
	inString, start := false, 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString, start = !inString, i
		case inString:
		case c == '{' || c == '[':
			open = append(open, i)
		case (c == '}' || c == ']') && len(open) > 0:
			open = open[:len(open)-1]
		}
	}
	switch {
	case inString:
		return `"`, start
	case len(open) == 0:
		return "", 0
	case text[open[len(open)-1]] == '{':
		return "}", open[len(open)-1]
	}
	return "]", open[len(open)-1]
}

const eatenQuotes = `A shell eats double quotes: put single ones around the JSON, as in '{"a":1}'`

// missingHint says what to do about JSON that is not closed.
func missingHint(text []byte, missing string) string {
	if bytes.IndexByte(text, '"') < 0 && bytes.IndexByte(text, ':') > 0 {
		return eatenQuotes
	}
	return "Write the " + missing +
		"; and where a shell has cut the text at a space, put single quotes around all of it"
}

// faultHint says what to do about JSON with a fault at a byte.
func faultHint(text []byte, at int) string {
	switch before := bytes.TrimRight(text[:at], " \t\r\n"); {
	case !bytes.ContainsAny(bytes.TrimSpace(text)[:1], "{["):
		return `A bare text needs quotes of its own: '"hello"'`
	case text[at] == '\n':
		return `A line break within a text is written \n`
	case text[at] == '\'':
		return `JSON has double quotes, and the shell's single ones go around all of it: '{"a":"b"}'`
	case (text[at] == '}' || text[at] == ']') && bytes.HasSuffix(before, []byte(",")):
		return "Take out the comma before it"
	case text[at] == '}' && bytes.HasSuffix(before, []byte(":")):
		return "A value is missing before it"
	case bytes.HasPrefix(text[at:], []byte("True")), bytes.HasPrefix(text[at:], []byte("False")),
		bytes.HasPrefix(text[at:], []byte("None")):
		return "JSON has true, false and null"
	case bytes.IndexByte(text, '"') < 0:
		return eatenQuotes
	case json.Valid(before):
		return "Take it out, and what follows"
	}
	return `Keys and texts stand in double quotes, and commas between the members: '{"a":"b","c":1}'`
}
