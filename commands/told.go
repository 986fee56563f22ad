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

// Told returns the content of a message, sent in any vocabulary, as models see it: its summary, text and data, each
// on lines of its own, processed by Harmless.
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

// tags matches, in folded text, the beginnings of texts that hosts or models mistake for something other than a
// message. Gemini CLI passes &lt; to its model for <. Each match is broken after its first or its second group.
var tags = pattern.New(`(?i)(<|\\u003c|&(?:amp;)*(?:lt|#0*60|#x0*3c);?)` +
	`(?:[\s/\\|]*(?:` +
	alike("antml|assistant|bash-|channel|command|cross[-_]session|developer|end_of_|environment|function|hook|human|im_|instruction|invoke|"+
		"local-command|mailroom|new-diagnostics|parameter|permissions|persisted-output|session_context|start_of_|subagent|system|task-notification|teammate|thinking|"+
		"tool|turn_aborted|untrusted|user") + `)` +
	`|[/\\]?\|[\w.-]{1,40}\|` + // <|start|>, <|message|>, and any other token that a model may have
	`|[\s/\\]*(?:s|bos|eos|sys)\s*>)` + // </s>, <<SYS>>
	`|(\[)[\s/\\]*(?:` + alike("inst|system_prompt|available_tools|tool_calls|tool_results|tool_content") + `)\s*\]`)

// alike changes a pattern so that l also matches i in its words, and i matches l: the capital I of another alphabet
// looks like both.
func alike(words string) string { return strings.NewReplacer("i", "[il]", "l", "[il]").Replace(words) }

// Harmless removes everything from a text that a terminal or a model could mistake for something other than text:
// escape sequences and other control characters, marks that change the writing direction, and characters that nothing
// displays. It replaces line and paragraph separators with line breaks. It also breaks tags, and texts that only look
// like tags, with a zero-width character.
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
		at := max(found[3], found[5]) // the end of the group that matched
		if from != nil {
			_, size := utf8.DecodeRuneInString(s[from[at-1]:])
			at = from[at-1] + size
		}
		b.WriteString(s[done:at] + "\u200b")
		done = at
	}
	return b.String() + s[done:]
}

// fold returns a text as it looks, in ASCII where possible: it drops invisible characters, and replaces characters
// that look like ASCII. from holds, for each byte of folded, its position in s. A nil from means that all positions
// are equal.
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

// isUnseen reports whether r is a character that nothing displays: a Unicode tag character, which models read as
// ASCII, or an unassigned character that displays ignore. The variation selectors of ideographs are not unseen.
func isUnseen(r rune) bool {
	variation := 0xe0100 <= r && r <= 0xe01ef // variation selector of the preceding ideograph
	return r == 0x2065 || 0xfff0 <= r && r <= 0xfff8 || 0xe0000 <= r && r <= 0xe0fff && !variation
}

// Units counts the characters of a text in UTF-16 code units, as agent hosts do, because they are written in
// JavaScript.
func Units(s string) (n int) {
	for _, r := range s {
		n += utf16.RuneLen(r)
	}
	return n
}

// FirstUnits returns the beginning of a text, at most n UTF-16 code units. It never splits a character.
func FirstUnits(s string, n int) string {
	for i, r := range s {
		if n -= utf16.RuneLen(r); n < 0 {
			return s[:i]
		}
	}
	return s
}

// NextPart describes which characters of a message a text contains, of how many, and how a model reads the next part.
func NextPart(from, next, all int, id string) string {
	return fmt.Sprintf("characters %d to %d of %d; to read the next part, call get_message with message_id %s and offset %d", from,
		next-1, all, id, next)
}
