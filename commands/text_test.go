package commands

import (
	"errors"
	"strings"
	"testing"
)

func TestHarmless(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain, ä, 😀":                  "plain, ä, 😀",
		"two\nlines\tand a tab":        "two\nlines\tand a tab",
		"\x1b[2J\x1b]0;title\x07":      "\uFFFD[2J\uFFFD]0;title\uFFFD",
		"over\rwritten\b":              "over\uFFFDwritten\uFFFD",
		"C1 \u009b2J":                  "C1 \uFFFD2J",
		"right \u202eto left\u202c":    "right \uFFFDto left\uFFFD",
		"a zero\u200bwidth and \u0000": "a zero\uFFFDwidth and \uFFFD",
	} {
		if got := Harmless(in); got != want {
			t.Errorf("%q becomes %q; want %q", in, got, want)
		}
	}
}

func TestTextMakesArgumentsHarmless(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	w := &Text{Out: &b, Color: true}
	w.Printf("%s|%s|", "\x1b[31mred", w.Paint(Red, "\x1b[0mstop"))
	w.Fields([2]string{"name", "\x1b[5m"}, [2]string{"empty", ""}, [2]string{"a longer name", "x"})
	w.Table([]string{"A", "B"}, [][]string{{"\x1b[8m", "two\nlines"}, {"longer", ""}})
	got := strings.NewReplacer("\x1b[31m", "<red>", "\x1b[0m", "</>", "\x1b[2m", "<dim>", "\x1b[1m", "<bold>").Replace(b.String())
	if strings.Contains(got, "\x1b") {
		t.Errorf("an escape of a message came through: %q", got)
	}
	want := "\uFFFD[31mred|<red>\uFFFD[0mstop</>|<dim>name</>           \uFFFD[5m\n<dim>a longer name</>  x\n" +
		"<bold>A       B</>\n\uFFFD[8m    two lines\nlonger\n"
	if got != want {
		t.Errorf("%q; want %q", got, want)
	}
}

func TestTableCutsLongCells(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	w := &Text{Out: &b, Width: 60}
	w.Table([]string{"A", "B"}, [][]string{{strings.Repeat("ä", 100), "end"}})
	line := strings.Split(b.String(), "\n")[1]
	if len([]rune(line)) > 60 || !strings.HasSuffix(line, "…  end") {
		t.Errorf("%q does not fit into 60 columns with its end", line)
	}
}

func TestTableBecomesBlocksWhereItDoesNotFit(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	w := &Text{Out: &b, Width: 30}
	w.Table([]string{"MESSAGE", "ERROR", "FROM"}, [][]string{
		{"msg-01M7XCRABXBSEP4S8QH8Y0B8AV", "", "a"}, {"msg-01M7XCRACAR6H2P93R2A5P2MCZ", "two\nlines that are long", "b"},
	})
	want := "message  msg-01M7XCRABXBSEP4S8QH8Y0B8AV\nfrom     a\n\n" +
		"message  msg-01M7XCRACAR6H2P93R2A5P2MCZ\nerror    two lines that are long\nfrom     b\n"
	if b.String() != want {
		t.Errorf("%q; want %q", b.String(), want)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestTextRemembersItsFirstError(t *testing.T) {
	t.Parallel()
	w := &Text{Out: failing{}}
	w.Printf("a")
	w.Printf("b")
	if w.Err() == nil {
		t.Error("a text that could not be written has no error")
	}
}
