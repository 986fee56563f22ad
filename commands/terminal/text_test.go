package terminal

import (
	"errors"
	"strings"
	"testing"
)

func TestTextMakesArgumentsVisible(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	w := &Text{Out: &b, Color: true}
	w.Printf("%s|%s|", "\x1b[31mred", w.Paint(Red, "\x1b[0mstop"))
	w.Fields([2]string{"name", "\x1b[5m"}, [2]string{"empty", ""}, [2]string{"a longer name", "x"})
	w.Table([]string{"A", "B"}, [][]string{{"\x1b[8m", "two\nlines"}, {"longer", ""}})
	got := strings.NewReplacer("\x1b[31m", "<red>", "\x1b[0m", "</>", "\x1b[2m", "<dim>", "\x1b[1m",
		"<bold>").Replace(b.String())
	if strings.Contains(got, "\x1b") {
		t.Errorf("an escape of a message came through: %q", got)
	}
	want := `\u001b[31mred|<red>\u001b[0mstop</>|` + "<dim>name</>           \\u001b[5m\n<dim>a longer name</>  x\n" +
		"<bold>A          B</>\n\\u001b[8m  two lines\nlonger\n"
	if got != want {
		t.Errorf("%q; want %q", got, want)
	}
}

// laid returns the text of a table with two columns.
func laid(width int, header []string, rows ...[]string) string {
	var b strings.Builder
	(&Text{Out: &b, Width: width}).Table(header, rows)
	return b.String()
}

func TestTableCutsFreeTextOnly(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("word ", 30)
	got := laid(60, []string{"TEXT…", "B"}, []string{long, "end"})
	line := strings.Split(got, "\n")[1]
	if columns(line) > 60 || !strings.HasSuffix(line, "…  end") || strings.Contains(strings.Split(got, "\n")[0], "…") {
		t.Errorf("%q does not fit into 60 columns with its end", got)
	}
	got = laid(60, []string{"WHY", "B"}, []string{long[:100], "end"})
	if want := "WHY" + strings.Repeat(" ", 54) + "B\n" + strings.TrimSpace(strings.Repeat("word ", 11)) + "   end\n" +
		strings.TrimSpace(strings.Repeat("word ", 9)) + "\n"; got != want {
		t.Errorf("%q; want %q", got, want)
	}
	if got = laid(30, []string{"ID", "WHY"},
		[]string{"a-long-id-of-25-letters-0", "no room"}); got != "id   a-long-id-of-25-letters-0\nwhy  no room\n" {
		t.Errorf("%q is no record", got)
	}
}

func TestTableCountsColumns(t *testing.T) {
	t.Parallel()
	got := laid(0, []string{"A", "B"}, []string{"界面", "x"}, []string{"e\u0301", "x"}, []string{"abcd", "x"})
	if want := "A     B\n界面  x\ne\u0301     x\nabcd  x\n"; got != want {
		t.Errorf("%q; want %q", got, want)
	}
	w := &Text{}
	for limit, want := range map[int]string{4: "界…", 5: "界面…", 6: "界面界"} {
		if got := w.Cut("界面界", limit); got != want {
			t.Errorf("cut at %d: %q; want %q", limit, got, want)
		}
	}
	if got := (&Text{ASCII: true}).Cut("abcdef", 5); got != "ab..." {
		t.Errorf("in ASCII: %q", got)
	}
}

// TestLinesBreakBetweenWords checks that no line is wider than the terminal, and that no continued line begins at the
// margin, where it could look like a separate line. Only a word wider than the terminal is broken.
func TestLinesBreakBetweenWords(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	w := &Text{Out: &b, Width: 30, Color: true}
	w.Printf("%s a message of somebody that is long\n", w.Paint(Bold, "a word and another"))
	w.Printf("part of a line")
	w.Printf(" and the rest of it, in %s\n", "parts")
	w.Fields([2]string{"key", "a value of more words than a line has, " + strings.Repeat("x", 40)})
	w.Printf("├─ claimed  by the first who came by and saw it\n│  └─ a leaf that is too long for its line\n")
	w.Body("    ", "try `mailroom send bob hello` or `a command that is longer than a line`")
	w.Whole("a line that is to be copied as it is\n")
	w.Printf("Go on? [y/N] ")
	want := `<bold>a word and another</> a message
  of somebody that is long
part of a line and the rest of
  it, in parts
<dim>key</>  a value of more words
     than a line has,
     ` + strings.Repeat("x", 25) + `
     ` + strings.Repeat("x", 15) + `
├─ claimed  by the first who
│  came by and saw it
│  └─ a leaf that is too long
│     for its line
    try
    ` + "`mailroom send bob hello`" + `
    or ` + "`a command that is" + `
    longer than a line` + "`" + `
a line that is to be copied as it is
Go on? [y/N] `
	if got := strings.NewReplacer("\x1b[2m", "<dim>", "\x1b[1m", "<bold>", "\x1b[0m",
		"</>").Replace(b.String()); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// TestNoWordReachesTheMargin checks that no terminal breaks the lines of a text, whatever the text contains as
// padding, and that no line begins at the margin or left of the indent.
func TestNoWordReachesTheMargin(t *testing.T) {
	t.Parallel()
	for width := narrowest; width < 3*narrowest; width += 7 {
		for _, pad := range []string{"\u00a0", " ", "\t", "x", "\u3000", "\u00a0 ", "e\u0301", "界"} {
			for n := range 2 * width {
				var b strings.Builder
				w := &Text{Out: &b, Width: width, Color: true}
				text := strings.Repeat(pad, n) + "FORGED line of ours"
				w.Printf("%s  ", w.Paint(Bold, "id"))
				w.Printf("%s", w.Paint(Red, text))
				w.Printf("%s\n", text)
				first := strings.Count(b.String(), "\n")
				w.Body("    ", "a\n"+text)
				w.Fields([2]string{"key", text})
				w.Table([]string{"A", "B"}, [][]string{{"id", text}})
				for i, line := range strings.Split(escapes().ReplaceAllString(b.String(), ""), "\n") {
					at := 0
					for _, r := range line {
						if at += columnsOf(r); r == '\t' {
							at = at / tabStop * tabStop
						}
					}
					if at > width || strings.HasPrefix(line, "FORGED") || i > 0 && i < first &&
						!strings.HasPrefix(line, hangs) {
						t.Fatalf("%d columns, %d times %q: %q in\n%s", width, n, pad, line, b.String())
					}
				}
			}
		}
	}
}

// TestLinesOfATreeInASCII checks that a continued line keeps the trunks of its tree, at any depth.
func TestLinesOfATreeInASCII(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	w := &Text{Out: &b, Width: 24, ASCII: true}
	for _, line := range []string{"├─ a branch of some more words", "│  ├─ below it another of them",
		"│  │  └─ and a leaf below that one", "└─ the last branch of them", "   └─ and its leaf of more words"} {
		for _, branch := range []string{"├─", "└─", "│"} {
			line = strings.ReplaceAll(line, branch, string(w.Sign(branch)))
		}
		w.Printf("%s\n", Painted(line))
	}
	want := `|- a branch of some more
|  words
|  |- below it another
|  |  of them
|  |  ` + "`" + `- and a leaf
|  |     below that one
` + "`" + `- the last branch of
   them
   ` + "`" + `- and its leaf of
      more words
`
	if got := b.String(); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

func TestTableBecomesRecordsWhereItDoesNotFit(t *testing.T) {
	t.Parallel()
	got := laid(36, []string{"MESSAGE", "ERROR", "FROM"},
		[]string{"msg-01M7XCRABXBSEP4S8QH8Y0B8AV", "", "a"},
		[]string{"msg-01M7XCRACAR6H2P93R2A5P2MCZ", "two\nlines that are longer", "b"})
	want := "message  msg-01M7XCRABXBSEP4S8QH8Y0B\n         8AV\nfrom     a\n\n" +
		"message  msg-01M7XCRACAR6H2P93R2A5P2\n         MCZ\nerror    two lines that are longer\nfrom     b\n"
	if got != want {
		t.Errorf("%q; want %q", got, want)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errors.New("full") }

// TestColumnsGiveWay checks that a table that is too wide drops columns in the given order, and then cuts all but the
// first.
func TestColumnsGiveWay(t *testing.T) {
	t.Parallel()
	id, name, text := strings.Repeat("i", 12), strings.Repeat("n", 30), "hello there, how are you"
	for width, want := range map[int]string{
		0:  "ID            FROM                            TYPE  TEXT\n" + id + "  " + name + "  note  " + text + "\n",
		72: "ID            FROM                            TYPE  TEXT\n" + id + "  " + name + "  note  hello there, how ar…\n",
		70: "ID            FROM                            TEXT\n" + id + "  " + name + "  " + text + "\n",
		40: "ID            FROM          TEXT\n" + id + "  nnnnnnnnnnn…  hello there…\n",
		20: "",
	} {
		var b strings.Builder
		w := &Text{Out: &b, Width: width}
		written := w.SideBySide([]string{"ID", "FROM", "TYPE", "TEXT…"}, [][]string{{id, name, "note", text}}, "TYPE")
		if got := b.String(); got != want || written != (want != "") {
			t.Errorf("%d columns: %t\n%s; want\n%s", width, written, got, want)
		}
	}
}

func TestTextRemembersItsFirstError(t *testing.T) {
	t.Parallel()
	w := &Text{Out: failing{}}
	w.Printf("a")
	w.Printf("b")
	if w.Err() == nil {
		t.Error("a text that could not be written has no error")
	}
}
