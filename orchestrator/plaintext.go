package orchestrator

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Unseen reports whether r is invisible but steers, hides or reorders the text around it: terminal control
// characters, Unicode format characters (directions, zero width, tags), line and paragraph separators, and fillers.
// Variation selectors, as in emoji, do not count, except those from U+E0100 to U+E01EF, which no font needs and
// which can hide text.
func Unseen(r rune) bool {
	if r < 0x7f {
		return r < ' '
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point) ||
		r >= 0xE0100 && r <= 0xE01EF
}

// CheckText checks a text of a message or a thread: it has at most limit bytes, is valid UTF-8 and contains no NUL.
// The error, invalid_params, calls the text by the name what.
func CheckText(what, text string, limit int) error {
	switch {
	case len(text) > limit:
		return Errorf(InvalidParams, "%s has %d bytes, but the limit is %d", what, len(text), limit)
	case strings.ContainsRune(text, 0) || !utf8.ValidString(text):
		return Errorf(InvalidParams, "%s must be valid UTF-8 without NUL characters", what)
	}
	return nil
}

// CheckPlain checks a text that is shown within a line of Mailroom's output, such as a message type or a thread
// name. The text must contain no character that could make the line look like another. The error, invalid_params,
// calls the text by the name what.
func CheckPlain(what, text string) error {
	for i, r := range text {
		switch {
		case r == utf8.RuneError:
			if _, size := utf8.DecodeRuneInString(text[i:]); size == 1 {
				return Errorf(InvalidParams, "%s must be valid UTF-8", what)
			}
		case Unseen(r):
			return Errorf(InvalidParams, "%s contains U+%04X, an invisible character that changes how text is displayed", what, r).
				WithHint("Remove the character: %s must be one line of visible characters", what)
		}
	}
	return nil
}
