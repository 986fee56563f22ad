package terminal

import (
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"

	"mailroom/orchestrator"
)

// Visible makes what somebody else wrote safe to show in several lines: each control and format character becomes its
// number, as in \u202e, and so does what is no UTF-8, as in \x9b. Line ends and tabs stay.
func Visible(s string) string { return visible(s, false) }

// Inline makes what somebody else wrote safe to show within a line of ours: as Visible does, and line ends and tabs
// become \n, \r and \t.
func Inline(s string) string { return visible(s, true) }

func visible(s string, inline bool) string {
	clean := 0 // so much of s needs nothing
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

// inlined makes an argument of Printf one that stays within its line: whatever is no number and not safe already is a
// text.
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
