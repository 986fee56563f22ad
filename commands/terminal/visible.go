package terminal

import (
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"

	"mailroom/orchestrator"
)

// Visible makes a text that somebody else wrote safe to show in several lines. Each control and format character
// becomes its number, as in \u202e, and so does each byte that is not UTF-8, as in \x9b. Line ends and tabs are kept.
func Visible(s string) string { return visible(s, false) }

// Inline makes a text that somebody else wrote safe to show within a line. It replaces the same characters as
// Visible, and writes line ends and tabs as \n, \r and \t.
func Inline(s string) string { return visible(s, true) }

func visible(s string, inline bool) string {
	clean := 0 // length of the part of s that needs no change
	for clean < len(s) && s[clean] >= ' ' && s[clean] < 0x7f {
		clean++
	}
	if clean == len(s) {
		return s
	}
	var b strings.Builder
	b.WriteString(s[:clean])
	for rest := s[clean:]; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, rest[0])
		case !orchestrator.Unseen(r) || !inline && (r == '\n' || r == '\t'):
			b.WriteString(rest[:size])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		rest = rest[size:]
	}
	return b.String()
}

// inlined returns an argument of Printf that stays within its line. It keeps numbers, booleans and Painted texts, and
// applies Inline to the text of any other argument.
func inlined(arg any) any {
	switch a := arg.(type) {
	case Painted:
		return a
	case string:
		return Inline(a)
	case []byte:
		return Inline(string(a))
	}
	switch kind := reflect.ValueOf(arg).Kind(); {
	case kind >= reflect.Bool && kind <= reflect.Complex128:
		return arg
	default:
		return Inline(fmt.Sprint(arg))
	}
}
