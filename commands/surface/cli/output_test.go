package cli

import (
	"strings"
	"testing"

	"mailroom/commands/surface/surfacetest"
	"mailroom/commands/terminal"
)

func TestFieldsOfAResult(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	w := &terminal.Text{Out: &b}
	w.Fields(fieldsOf(struct {
		MessageID string   `json:"message_id"`
		N         float64  `json:"n"`
		None      string   `json:"none,omitempty"`
		Left      string   `json:"-"`
		Words     []string `json:"words"`
		Text      string   `json:"text"`
		hidden    string
	}{MessageID: "m1", N: 1.1, Left: "x", Words: []string{"a", "b"}, Text: "two\nlines \x1b[2J", hidden: "x"})...)
	surfacetest.Equal(t, "the text", b.String(), "message id  m1\nn           1.1\nwords       [\"a\",\"b\"]\ntext        two\n            lines \\u001b[2J\n")
}

func TestOutputIsTextOnATerminal(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		terminal bool
		output   string
		text     bool
	}{{false, "", false}, {true, "", true}, {true, "json", false}, {false, "text", true}} {
		p := newProgram("")
		p.OutTerminal = test.terminal
		words := []string{"many", "lines", "--said", "hello"}
		if test.output != "" {
			words = append(words, "--output", test.output)
		}
		if status := p.run(words...); status != 0 {
			t.Errorf("%+v: exit status %d", test, status)
		}
		if isText := !strings.HasPrefix(p.out.String(), "{"); isText != test.text {
			t.Errorf("%+v answers %s", test, p.out)
		}
	}
}

func TestColoursOnlyOnATerminalThatWantsThem(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		terminal bool
		name     string
		want     bool
	}{{true, "", true}, {false, "", false}, {true, "NO_COLOR", false}} {
		p := newProgram("")
		p.ErrTerminal = test.terminal
		p.Getenv = func(name string) string {
			if name == test.name {
				return "1"
			}
			return ""
		}
		p.run("tyr", "--output", "text")
		if got := strings.Contains(p.err.String(), "\x1b["); got != test.want {
			t.Errorf("%+v: %q", test, p.err)
		}
	}
}

func TestProgressIsForTerminals(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ terminal, outTerminal, text, want bool }{
		{true, true, true, true}, {false, true, true, false}, {true, true, false, false}, {true, false, false, true},
	} {
		p := newProgram("")
		p.ErrTerminal, p.OutTerminal, p.output = test.terminal, test.outTerminal, "json"
		if test.text {
			p.output = "text"
		}
		report, finish := p.progress()
		if report != nil {
			report(1, 4, "rows")
		}
		finish()
		if got := strings.Contains(p.err.String(), "1 of 4 rows (25 %)"); got != test.want {
			t.Errorf("%+v: %q", test, p.err)
		}
	}
}

func TestRoff(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"a-b \\ c": `a\-b \e c`, ".TH": `\&.TH`, "'tis": `\&'tis`, "two\nlines": "two lines",
	} {
		surfacetest.Equal(t, in, roff(in), want)
	}
}
