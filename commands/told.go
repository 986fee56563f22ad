package commands

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"

	"mailroom/orchestrator"
)

// Told returns what a message says, in whichever vocabulary it was sent, as models are told it: its summary, text and data, a line
// or more each, made Harmless.
func Told(m *orchestrator.Message) string {
	c := ContentOf(m)
	var parts []string
	for _, part := range []string{m.Summary, c.Text, string(c.Data)} {
		if part != "" && !slices.Contains(parts, part) {
			parts = append(parts, part)
		}
	}
	return Harmless(strings.Join(parts, "\n"))
}

// tags are how texts begin that hosts, or models, take for more than a message, whatever without width stands between. Gemini CLI
// gives its model &lt; for <.
var tags = regexp.MustCompile(`(?i)(<|\x{FF1C}|\x{2039}|\\u003c|&(?:amp;)*(?:lt|#0*60|#x0*3c);?)([\s/\\|\p{Z}\p{Cf}\p{Mn}\x{115F}\x{1160}\x{2800}\x{3164}\x{FF5C}\x{FFA0}\x{FFFC}\x{1D159}]*(?:` +
	`antml|assistant|bash-|channel|command|cross-session|developer|end_of_|environment|function|hook|human|im_|instruction|invoke|local-command|mailroom|new-diagnostics|` +
	`parameter|permissions|persisted-output|session_context|start_of_|subagent|system|task-notification|teammate|thinking|tool|turn_aborted|untrusted|user))`)

// Harmless removes from a text what a terminal or a model could take for something else than text: escape sequences and other
// control characters, marks that turn the direction of writing, and characters that nothing displays. It breaks tags with a character
// without width.
func Harmless(s string) string {
	s = strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || isUnseen(r) {
			return -1
		}
		return r
	}, s)
	return tags.ReplaceAllString(s, "$1\u200b$2")
}

// isUnseen reports whether r is a character that nothing displays: the tags of Unicode, which models read as ASCII, and unassigned
// characters that are ignored. The variation selectors of ideographs stay.
func isUnseen(r rune) bool {
	variation := 0xe0100 <= r && r <= 0xe01ef // of the ideograph before it
	return r == 0x2065 || 0xfff0 <= r && r <= 0xfff8 || 0xe0000 <= r && r <= 0xe0fff && !variation
}

// Units counts the characters of a text as agent hosts do, which are written in JavaScript: in UTF-16 units.
func Units(s string) (n int) {
	for _, r := range s {
		n += utf16.RuneLen(r)
	}
	return n
}

// FirstUnits returns the beginning of a text, of at most n Units. No character is cut through.
func FirstUnits(s string, n int) string {
	for i, r := range s {
		if n -= utf16.RuneLen(r); n < 0 {
			return s[:i]
		}
	}
	return s
}

// NextPart says which characters of a message a text has, of how many, and how a model reads what comes next.
func NextPart(from, next, all int, id string) string {
	return fmt.Sprintf("characters %d to %d of %d; the next part: get_message with message_id %s and offset %d", from, next-1, all, id, next)
}
