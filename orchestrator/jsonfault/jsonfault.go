// Package jsonfault explains errors in JSON that a person wrote.
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

// Of explains to the author what is wrong with a text that is not JSON, and where. hint is advice for the most
// likely cause. err is nil if the text is valid JSON.
func Of(text []byte) (hint string, err error) {
	err = json.Unmarshal(text, new(json.RawMessage))
	var syntax *json.SyntaxError
	switch {
	case !errors.As(err, &syntax):
		return "", err
	case len(bytes.TrimSpace(text)) == 0:
		return "Enter valid JSON", errors.New("the text is empty")
	}
	if missing, opened := unclosed(text); missing != "" && int(syntax.Offset) >= len(text) {
		return missingHint(text, missing),
			fmt.Errorf("not valid JSON: the %c at character %d is not closed", text[opened],
				characters(text, opened))
	}
	at := max(0, min(int(syntax.Offset)-1, len(text)-1))
	_, expected, _ := strings.Cut(syntax.Error(), "' ")
	for _, own := range [][2]string{
		{"looking for beginning of object key string", "but a key in double quotes must start at this position"},
		{"looking for beginning of value", "but a value must start at this position"},
		{"after object key:value pair", "but a comma or } is required at this position"},
		{"after object key", "but a colon is required at this position"},
		{"after array element", "but a comma or ] is required at this position"},
		{"after top-level value", "but the JSON ends before this position"},
	} {
		expected = strings.Replace(expected, own[0], own[1], 1)
	}
	stands, _ := utf8.DecodeRune(text[at:])
	shown := string(stands)
	if unicode.IsControl(stands) {
		shown = strconv.Quote(shown)
	}
	return faultHint(text, at),
		fmt.Errorf("not valid JSON: character %d is %s, %s", characters(text, at), shown,
			cmp.Or(expected, syntax.Error()))
}

// characters returns the number, counted from 1, of the character at a byte offset.
func characters(text []byte, at int) int { return utf8.RuneCount(text[:at]) + 1 }

// unclosed returns the closing character of the innermost string, object or list that a text leaves open, and the
// offset at which that was opened. If nothing is open, missing is "".
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

const eatenQuotes = `The shell removes double quotes: put single quotes around the JSON, as in '{"a":1}'`

// missingHint returns advice about JSON that is not closed.
func missingHint(text []byte, missing string) string {
	if bytes.IndexByte(text, '"') < 0 && bytes.IndexByte(text, ':') > 0 {
		return eatenQuotes
	}
	return "Add the missing " + missing +
		". If the shell cut the text at a space, put single quotes around the whole text"
}

// faultHint returns advice about JSON with a fault at a byte offset.
func faultHint(text []byte, at int) string {
	switch before := bytes.TrimRight(text[:at], " \t\r\n"); {
	case !bytes.ContainsAny(bytes.TrimSpace(text)[:1], "{["):
		return `Put text in double quotes: '"hello"'`
	case text[at] == '\n':
		return `Write a line break within a string as \n`
	case text[at] == '\'':
		return `Use double quotes in JSON, and put single quotes around the whole JSON for the shell: '{"a":"b"}'`
	case (text[at] == '}' || text[at] == ']') && bytes.HasSuffix(before, []byte(",")):
		return "Remove the comma before this character"
	case text[at] == '}' && bytes.HasSuffix(before, []byte(":")):
		return "Add the missing value before this character"
	case bytes.HasPrefix(text[at:], []byte("True")), bytes.HasPrefix(text[at:], []byte("False")),
		bytes.HasPrefix(text[at:], []byte("None")):
		return "Use true, false, or null"
	case bytes.IndexByte(text, '"') < 0:
		return eatenQuotes
	case json.Valid(before):
		return "Remove this character and the text after it"
	}
	return `Put keys and strings in double quotes, and separate members with commas: '{"a":"b","c":1}'`
}
