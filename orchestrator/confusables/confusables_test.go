package confusables

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// The table maps characters to ASCII letters and digits only, and lists each character once.
func TestConfusables(t *testing.T) {
	t.Parallel()
	listed := 0
	for _, row := range lookalikes {
		listed += utf8.RuneCountInString(row.characters)
		if strings.Trim(row.like, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz") != "" ||
			row.like == "" {
			t.Errorf("%s look like %q", row.characters, row.like)
		}
	}
	if listed < 400 || listed != len(plainOf()) {
		t.Errorf("%d characters are listed, %d of them once", listed, len(plainOf()))
	}
}
