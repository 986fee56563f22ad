package orchestrator

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Unseen reports whether a character shows nothing of its own, but steers, hides or reorders what is around it: the
// control characters of a terminal, the format characters of Unicode (directions, zero width, tags), separators of
// lines and paragraphs, and fillers. The selectors of a variant, as in emoji, are none, but for those that no font
// needs and that can hide a text.
func Unseen(r rune) bool {
	if r < 0x7f {
		return r < ' '
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point) ||
		r >= 0xE0100 && r <= 0xE01EF
}

// CheckText checks a text of a message or a thread: it has at most limit bytes, and can be stored as it is. what names
// it in the error. Error: invalid_params.
func CheckText(what, text string, limit int) error {
	switch {
	case len(text) > limit:
		return Errorf(InvalidParams, "%s has %d bytes, but the limit is %d", what, len(text), limit)
	case strings.ContainsRune(text, 0) || !utf8.ValidString(text):
		return Errorf(InvalidParams, "%s must be valid UTF-8 without NUL characters", what)
	}
	return nil
}

// CheckPlain checks a text that is shown within a line of ours, such as a message's type or a thread's name: it must
// hold no character that could make the line look like another. what names it in the error. Error: invalid_params.
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
