package person

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzAnswer checks that whatever is stored as an answer, the result is one of the options, or a text if there are
// none, and that nothing can be read without the question's key.
func FuzzAnswer(f *testing.F) {
	for _, seed := range []string{`{"option":0}`, `{"option":1,"text":"x"}`, `{"text":"At noon"}`, `{"option":-1}`,
		`{"option":1e9}`, `{"v":1,"id":"q-1","option":0,"time":"2026-01-02T03:04:05Z","mac":""}`, ``, `null`, `[]`,
		`{} {}`} {
		f.Add(seed)
	}
	options := []string{"Yes", "No"}
	keys, err := newReply(&sealedQuestion{From: "builder", Options: options})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, given string) {
		chosen := reply{Options: options}
		if text, comment, err := chosen.open("q-1", given); err == nil &&
			(!slices.Contains(options, text) || utf8.RuneCountInString(comment) > maxQuestion) {
			t.Errorf("an option is read as %q, %q", text, comment)
		}
		written := reply{}
		if text, comment, err := written.open("q-1", given); err == nil &&
			(strings.TrimSpace(text) == "" || utf8.RuneCountInString(text) > maxQuestion || comment != "") {
			t.Errorf("a text is read as %q, %q", text, comment)
		}
		if text, _, err := keys.open("q-1", given); err == nil {
			t.Errorf("what is not sealed is read as %q", text)
		}
	})
}
