package commands

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"mailroom/orchestrator"
	"mailroom/orchestrator/confusables"
	"mailroom/orchestrator/pattern"
)

// Told returns what a message says, in whichever vocabulary it was sent, as models are told it: its summary, text and
// data, a line or more each, made Harmless.
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

// tags are how texts begin that hosts, or models, take for more than a message, in a text that is folded. Gemini CLI
// gives its model &lt; for <. Each is broken behind its first group, or its second.
var tags = pattern.New(`(?i)(<|\\u003c|&(?:amp;)*(?:lt|#0*60|#x0*3c);?)` +
	`(?:[\s/\\|]*(?:` +
	alike("antml|assistant|bash-|channel|command|cross[-_]session|developer|end_of_|environment|function|hook|human|im_|instruction|invoke|"+
		"local-command|mailroom|new-diagnostics|parameter|permissions|persisted-output|session_context|start_of_|subagent|system|task-notification|teammate|thinking|"+
		"tool|turn_aborted|untrusted|user") + `)` +
	`|[/\\]?\|[\w.-]{1,40}\|` + // <|start|>, <|message|>, and whatever other token a model may have
	`|[\s/\\]*(?:s|bos|eos|sys)\s*>)` + // </s>, <<SYS>>
	`|(\[)[\s/\\]*(?:` + alike("inst|system_prompt|available_tools|tool_calls|tool_results|tool_content") + `)\s*\]`)

// alike makes a pattern match words with an l in place of an i, too, and the other way round: a large I of another
// alphabet looks like both.
func alike(words string) string { return strings.NewReplacer("i", "[il]", "l", "[il]").Replace(words) }

// Harmless removes from a text what a terminal or a model could take for something else than text: escape sequences and
// other control characters, marks that turn the direction of writing, and characters that nothing displays. It makes
// the separators of lines and paragraphs line breaks, and breaks tags with a character without width, also those that
// only look like some.
func Harmless(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\u2028' || r == '\u2029':
			return '\n'
		case r != '\n' && r != '\t' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || isUnseen(r):
			return -1
		}
		return r
	}, s)
	folded, from := fold(s)
	var b strings.Builder
	done := 0
	for _, found := range tags().FindAllStringSubmatchIndex(folded, -1) {
		at := max(found[3], found[5]) // where the group ends that was found
		if from != nil {
			_, size := utf8.DecodeRuneInString(s[from[at-1]:])
			at = from[at-1] + size
		}
		b.WriteString(s[done:at] + "\u200b")
		done = at
	}
	return b.String() + s[done:]
}

// fold returns a text as it looks, in ASCII as far as that goes: without what shows nothing, and with what looks like
// ASCII in its place. from has, for each byte of it, where in the text it comes from; nil is from the same place.
func fold(s string) (folded string, from []int) {
	if strings.IndexFunc(s, func(r rune) bool { return r > unicode.MaxASCII }) < 0 {
		return s, nil
	}
	var b strings.Builder
	from = make([]int, 0, len(s))
	for at, r := range s {
		n, _ := b.WriteString(confusables.Plain(r))
		for range n {
			from = append(from, at)
		}
	}
	return b.String(), from
}

// isUnseen reports whether r is a character that nothing displays: the tags of Unicode, which models read as ASCII, and
// unassigned characters that are ignored. The variation selectors of ideographs stay.
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
	return fmt.Sprintf("characters %d to %d of %d; to read the next part, call get_message with message_id %s and offset %d", from,
		next-1, all, id, next)
}
