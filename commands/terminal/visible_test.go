package terminal

import (
	"strings"
	"testing"
	"unicode/utf8"

	"mailroom/orchestrator"
)

func TestVisible(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain, ä, 😀, ❤️, 日本":                  "plain, ä, 😀, ❤️, 日本",
		"two\nlines\tand a tab":                "two\nlines\tand a tab",
		"\x1b[2J\x1b]0;title\x07":              `\u001b[2J\u001b]0;title\u0007`,
		"over\rwritten\b":                      `over\rwritten\u0008`,
		"C1 \u009b2J, and what is none \x9b":   `C1 \u009b2J, and what is none \x9b`,
		"right \u202eto left\u202c \u2066x":    `right \u202eto left\u202c \u2066x`,
		"a zero\u200bwidth, \u0000 and \ufeff": `a zero\u200bwidth, \u0000 and \ufeff`,
		"lines\u2028of\u2029others\u0085":      `lines\u2028of\u2029others\u0085`,
		"tags \U000e0041\U000e0042":            `tags \U000e0041\U000e0042`,
		"joined 👩\u200d💻":                      `joined 👩\u200d💻`,
		"fillers \u3164 \U000e0100":            `fillers \u3164 \U000e0100`,
	} {
		if got := Visible(in); got != want {
			t.Errorf("%q becomes %q; want %q", in, got, want)
		}
	}
	if got, want := Inline("two\r\nlines\tand \u2028"), `two\r\nlines\tand \u2028`; got != want {
		t.Errorf("in a line it is %q; want %q", got, want)
	}
}

// Each line of a text is indented, whatever line end it has.
func TestBlock(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	w := &Text{Out: &b}
	w.Block("head ", "  ", "one\ntwo\r\nthree\rfour\n\nfive\n\n")
	w.Body("    ", "\nsix")
	if want := "head one\n  two\n  three\\rfour\n  \n  five\n    \n    six\n"; b.String() != want {
		t.Errorf("%q; want %q", b.String(), want)
	}
}

// FuzzVisible checks that no control sequence passes, that the output is UTF-8, and that no line but the first begins
// at the margin.
func FuzzVisible(f *testing.F) {
	for _, seed := range []string{"", "a\nb", "\x9b\u009b\u202e\r\n\U000e0041", "\xf0\x9f", "\ufffd"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		var b strings.Builder
		w := &Text{Out: &b}
		w.Block("", "  ", s)
		w.Printf("%s|%v\n", s, []byte(s))
		w.Table([]string{s, "B"}, [][]string{{s, s}})
		out := b.String()
		if !utf8.ValidString(out) {
			t.Errorf("%q becomes %q, which is no UTF-8", s, out)
		}
		for _, r := range out {
			if orchestrator.Unseen(r) && r != '\n' && r != '\t' {
				t.Fatalf("%q becomes %q", s, out)
			}
		}
		if lines := strings.Split(strings.TrimRight(Visible(s), "\n"), "\n"); strings.Count(out, "\n") > len(lines)+3 {
			t.Errorf("%q becomes more lines than it has: %q", s, out)
		}
	})
}
