package process

import (
	"path/filepath"
	"testing"
)

// A host is recognized by its program or by its script.
func TestRuns(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		words []string
		want  bool
	}{
		{[]string{"/usr/bin/gemini"}, true},
		{[]string{"node", "/usr/bin/gemini", "-p", "hello"}, true},
		{[]string{"/usr/bin/node", "--max-old-space-size=12052", "/usr/bin/gemini"}, true},
		{[]string{"node", "/usr/bin/other", "gemini"}, false},
		{[]string{"bash", "-c", "gemini"}, false},
		{[]string{"bash", "--login", "-c", "gemini"}, false},
		{[]string{"node", "--version"}, false},
		{nil, false},
	} {
		if got := Runs(test.words, func(file string) bool { return filepath.Base(file) == "gemini" }); got != test.want {
			t.Errorf("%q runs gemini: %t, want %t", test.words, got, test.want)
		}
	}
}
