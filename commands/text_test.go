package commands

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
	got := strings.NewReplacer("\x1b[31m", "<red>", "\x1b[0m", "</>", "\x1b[2m", "<dim>", "\x1b[1m", "<bold>").Replace(b.String())
	if strings.Contains(got, "\x1b") {
		t.Errorf("an escape of a message came through: %q", got)
	}
	want := `\u001b[31mred|<red>\u001b[0mstop</>|` + "<dim>name</>           \\u001b[5m\n<dim>a longer name</>  x\n" +
		"<bold>A          B</>\n\\u001b[8m  two lines\nlonger\n"
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
