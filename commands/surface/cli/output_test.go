package cli

import (
	"strings"
	"testing"

	"mailroom/commands"
	"mailroom/commands/surface/surfacetest"
)

func TestGenericText(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	generic(&commands.Text{Out: &b}, []byte(`{"message_id":"m1","n":1.10,"none":null,"words":["a","b"],"empty":[],"deep":{"x":1},`+
		`"text":"two\nlines \u001b[2J","delivery_summary":[{"recipient":"a","failed":0},{"recipient":"longer","more":"x"}]}`))
	surfacetest.Equal(t, "the text", b.String(), "message id  m1\nn           1.10\nwords       a, b\ndeep        {\"x\":1}\n"+
		"text        two\n            lines \\u001b[2J\n\ndelivery summary\nrecipient  failed  more\na          0\nlonger             x\n")
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
		words := []string{"many", "lines", "--text", "hello"}
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
		p.ErrTerminal, p.OutTerminal = test.terminal, test.outTerminal
		ctx, finish := p.progress(t.Context(), &printer{p: p.Program, text: test.text})
		commands.Progress(ctx, 1, 4, "rows")
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
