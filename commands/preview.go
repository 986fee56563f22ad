package commands

import "strings"

// The bounds of a preview: words, and bytes.
const (
	previewWords = 10
	previewBytes = 200
)

// Preview is the summary of a text that has none: its first words.
func Preview(text string) string {
	var words []string
	for word := range strings.FieldsSeq(text) {
		if words = append(words, word); len(words) == previewWords {
			break
		}
	}
	start := strings.Join(words, " ")
	if len(start) > previewBytes {
		start = strings.ToValidUTF8(start[:previewBytes], "") // the cut may go through a character
	}
	return start
}
