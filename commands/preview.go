package commands

import "strings"

// Bounds of a preview, in words and in bytes.
const (
	previewWords = 10
	previewBytes = 200
)

// Preview returns the first words of a text, as a summary for a message without one.
func Preview(text string) string {
	var words []string
	for word := range strings.FieldsSeq(text) {
		if words = append(words, word); len(words) == previewWords {
			break
		}
	}
	start := strings.Join(words, " ")
	if len(start) > previewBytes {
		start = strings.ToValidUTF8(start[:previewBytes], "") // the cut may split a character
	}
	return start
}
