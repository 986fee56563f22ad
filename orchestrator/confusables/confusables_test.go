package confusables

import (
	"cmp"
	"slices"
	"strings"
	"testing"
)

// The generated table can be searched, and leads to ASCII letters and digits only.
func TestConfusables(t *testing.T) {
	t.Parallel()
	if len(confusables) < 400 || !slices.IsSortedFunc(confusables[:], func(a, b confusable) int { return cmp.Compare(a.from, b.from) }) {
		t.Errorf("%d rows, or not in order", len(confusables))
	}
	for _, c := range confusables {
		if strings.Trim(c.to, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz") != "" || c.to == "" {
			t.Errorf("%U leads to %q", c.from, c.to)
		}
	}
}
