package cli

import (
	"strings"
	"testing"

	"mailroom/commands/surface/surfacetest"
)

func TestHelp(t *testing.T) {
	t.Parallel()
	for in, parts := range map[string][]string{
		"": {"mailroom - messages between", "mailroom COMMAND [arguments] [--flags]",
			"Programs:\n  try, many, invoke", "--db, --host-name, --as"},
		"help":   {"mailroom - messages between"},
		"--help": {"mailroom - messages between"},
		"help try": {"mailroom try - Try something", "mailroom try [--flags] [WORD] [REST...]",
			"Tries something.", "Usage notes:", "--thread-id value", "(-9 to 1000) (default: 10)", "--db FILE"},
		"try --wrong -h":    {"mailroom try - Try something"},
		"many --help":       {"mailroom many - lines", "\n  lines  Try something\n"},
		"many lines --help": {"mailroom many lines - Try something", "--stdin", "--atomic"},
		"help invoke":       {"mailroom invoke [--flags] NAME [JSON|@FILE|-]"},
	} {
		p := newProgram("")
		if status := p.run(strings.Fields(in)...); status != 0 {
			t.Errorf("%s: exit status %d: %s", in, status, p.out)
		}
		for _, part := range parts {
			if !strings.Contains(p.out.String(), part) {
				t.Errorf("%s says %s; want %q in it", in, p.out, part)
			}
		}
	}
}

func TestHelpOfWhatThereIsNot(t *testing.T) {
	t.Parallel()
	p := newProgram("")
	if status := p.run("help", "tyr"); status != 64 || !strings.Contains(p.out.String(), "Did you mean try?") {
		t.Errorf("exit status %d: %s", status, p.out)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"--version", "-v", "try --version"} {
		p := newProgram("")
		if status := p.run(strings.Fields(in)...); status != 0 {
			t.Errorf("%s: exit status %d", in, status)
		}
		surfacetest.Equal(t, in, p.out.String(), "mailroom version v1\n")
	}
}

func TestHelpTextOfACard(t *testing.T) {
	t.Parallel()
	_, body, _ := strings.Cut(surfacetest.Card, "---\n\n")
	surfacetest.Equal(t, "the help", helpText(body),
		"Tries something.\n\nUsage notes:\n\nIt takes a while.\n\nExamples:\n\n    mailroom try")
	surfacetest.Equal(t, "a section", section(body, "Usage notes"), "It takes a while.")
	surfacetest.Equal(t, "a section that is not there", section(body, "Nothing"), "")
}
