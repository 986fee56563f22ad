package commands

import (
	"strings"
	"unicode/utf8"
)

// The bounds of a preview: words, and bytes.
const (
	previewWords = 10
	previewBytes = 200
)

// Preview is the summary of a text that has none: its first words.
func Preview(text string) string {
	var b strings.Builder
	words := 0
	for word := range strings.FieldsSeq(text) {
		if words > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(word)
		if words++; words == previewWords || b.Len() > previewBytes {
			break
		}
	}
	cut := b.String()
	if len(cut) <= previewBytes {
		return cut
	}
	end := previewBytes
	for !utf8.RuneStart(cut[end]) {
		end--
	}
	return cut[:end]
}
