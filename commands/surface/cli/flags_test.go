package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	urfave "github.com/urfave/cli/v2"

	"mailroom/commands"
	"mailroom/commands/connect"
	"mailroom/commands/mail"
	"mailroom/commands/signal"
	"mailroom/commands/surface/surfacetest"
)

// textParams are a name and a text after it.
type textParams struct {
	To   string          `json:"to" desc:"a name" arg:"1"`
	Said json.RawMessage `json:"said,omitempty" desc:"a text" arg:"rest"`
}

// withTexts returns a program with an additional command that takes a text.
func withTexts() *program {
	type got struct {
		Got textParams `json:"got"`
	}
	p := newProgram("")
	texts := commands.Define(surfacetest.Vocabulary("texts", "texts"), "texts",
		func(_ context.Context, _ commands.Env, p textParams) (got, error) {
			return got{p}, nil
		}).With(commands.Traits{NoDatabase: true})
	p.Catalogue = commands.NewCatalogue(p.Catalogue.All(), []*commands.Definition{texts.Definition})
	return p
}

// everything returns a program with all commands, which the test does not run.
func everything() *Program {
	return &Program{Config: Config{Catalogue: commands.NewCatalogue(
		surfacetest.Catalogue().All(), mail.Definitions(), connect.Definitions(), signal.Definitions())}}
}

// everyCommand calls f with the words of each command, under each of its names.
func everyCommand(p *Program, path []string, f func(words []string)) {
	for _, c := range p.below(path) {
		words := append(slices.Clone(path), c.name)
		if len(c.group) > 0 {
			everyCommand(p, words, f)
		} else {
			f(words)
		}
	}
}

// TestAFlagOfOneValueIsGivenOnce checks that every flag of every command is refused if given twice, under any two of
// its names and at any place, unless it makes a list. Global flags may repeat.
func TestAFlagOfOneValueIsGivenOnce(t *testing.T) {
	t.Parallel()
	p := everything()
	flags, lists := 0, 0
	everyCommand(p, nil, func(words []string) {
		for _, flag := range p.readArgs(words).called.Flags {
			_, isList := flag.(*urfave.StringSliceFlag)
			for _, first := range flag.Names() {
				for _, second := range flag.Names() {
					a, b := dashed(first)+"=a", dashed(second)+"=b"
					for _, line := range [][]string{append(slices.Clone(words), a, b),
						append([]string{a}, append(slices.Clone(words), "x", b)...)} {
						err := p.readArgs(line).checkFlags()
						if isList == (err != nil) {
							t.Errorf("%s: %v", strings.Join(line, " "), err)
						}
						if said := fmt.Sprint(err); !isList && !strings.Contains(said, "twice") &&
							!strings.Contains(said, "the same flag") {
							t.Errorf("%s: %v", strings.Join(line, " "), err)
						}
					}
					flags++
				}
			}
			if isList {
				lists++
			}
		}
	})
	if flags < 200 || lists < 10 {
		t.Errorf("%d flags and %d lists were tried", flags, lists)
	}
	for in, want := range map[string]string{
		"--as a --as b send bob hi":                  "",
		"send bob hi --db x --json --json --db y":    "",
		"send --recipient bob --recipient eve":       "--recipient is given twice",
		"send --recipient bob --recipient=bob":       "--recipient is given twice",
		"send bob -type a --message-type b":          "--type and --message-type are the same flag",
		"send --stdin --stdin":                       "--stdin is given twice",
		"serve --host a --host b":                    "",
		"serve --listen a:1 --listen b:1":            "--listen is given twice",
		"tail -n 1 -n 2":                             "-n is given twice",
		"relay send_message --target a --target b":   "--target is given twice",
		"hook stop --host claude --host codex":       "--host is given twice",
		"mcp --vocabulary relay --vocabulary signal": "",
	} {
		err := p.readArgs(strings.Fields(in)).checkFlags()
		if want == "" && err != nil || want != "" && !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: %v, want %q", in, err, want)
		}
	}
}

// TestAFlagAndAnArgumentAreTwo checks that a value is refused if given both as a flag and as an argument.
func TestAFlagAndAnArgumentAreTwo(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"texts bob hi --to eve":      `given twice, as --to and as \"bob\"`,
		"texts --to eve bob hi":      `given twice, as --to and as \"bob\"`,
		"texts --to eve bob is here": `given twice, as --to and as \"bob\"`,
		"texts bob hi --said 5":      `unexpected \"hi\"`,
		"texts --to eve --said 5 b":  "either with --to or as an argument",
	} {
		p := withTexts()
		if status := p.run(strings.Fields(in)...); status != 64 || !strings.Contains(p.out.String(), want) {
			t.Errorf("%s: exit status %d: %s", in, status, p.out)
		}
	}
	for in, want := range map[string]string{
		"texts bob hi there":      `{"to":"bob","said":"hi there"}`,
		"texts --to bob hi":       `{"to":"bob","said":"hi"}`,
		"texts bob --said 5":      `{"to":"bob","said":5}`,
		"texts bob -- --help":     `{"to":"bob","said":"--help"}`,
		"texts bob -- -v":         `{"to":"bob","said":"-v"}`,
		"texts --to bob -- -h -x": "given twice",
		"texts -- bob --help":     `{"to":"bob","said":"--help"}`,
	} {
		p := withTexts()
		if p.run(strings.Fields(in)...); !strings.Contains(p.out.String(), want) {
			t.Errorf("%s answers %s, want %s", in, p.out, want)
		}
	}
}

// TestATextThatLooksLikeAFlagIsNotLost checks that, where a text can be, no word shows the help or the version with a
// successful exit status.
func TestATextThatLooksLikeAFlagIsNotLost(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"--help", "-h", "-help", "--h", "--version", "-v", "--help=true", "-x", "--- a rule",
		"- a list\n- of two", "--" + strings.Repeat("long ", 100_000)} {
		for _, before := range []string{"texts bob", "texts --to bob", "--to=bob texts", "--json texts bob hi",
			"invoke texts"} {
			p := withTexts()
			status := p.run(append(strings.Fields(before), text)...)
			said := p.out.String()
			if status != 64 || !strings.Contains(said, `"success":false`) || !strings.Contains(said, " -- ") ||
				len(said) > 1000 {
				t.Errorf("%s %.30q: exit status %d: %.1000s", before, text, status, said)
			}
		}
		for _, before := range []string{"texts --to", "texts bob --said"} {
			// the word is the value of the flag, or the value is missing
			p := withTexts()
			if status := p.run(append(strings.Fields(before), text)...); status != 64 &&
				!strings.Contains(p.out.String(), `"got":{"to":`) {
				t.Errorf("%s %.30q: exit status %d: %.1000s", before, text, status, p.out)
			}
		}
	}
	for _, in := range []string{"texts --help", "texts -h", "--help texts bob", "help texts bob", "try red --help",
		"--version texts bob", "invoke --help"} {
		p := withTexts()
		if status := p.run(strings.Fields(in)...); status != 0 || p.out.Len() == 0 {
			t.Errorf("%s: exit status %d: %s", in, status, p.out)
		}
	}
}

// TestWhereATextCanStand checks the list of all commands with a text argument after other arguments.
func TestWhereATextCanStand(t *testing.T) {
	t.Parallel()
	var found []string
	p := everything()
	everyCommand(p, nil, func(words []string) {
		if p.readArgs(words).takesText() {
			found = append(found, strings.Join(words, " "))
		}
	})
	slices.Sort(found)
	surfacetest.Equal(t, "the list", strings.Join(found, ", "),
		"invoke, mail rename_thread, reply, schedule add, send, setting set")
}

// TestEmptyGlobalFlags checks that an empty value, such as that of an unset variable, does not mean the default.
func TestEmptyGlobalFlags(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"as", "db", "session", "output", "log-level", hostFlag} {
		for _, words := range [][]string{{"--" + flag + "="}, {"--" + flag, ""}} {
			p := newProgram("")
			if status := p.run(append([]string{"try", "red"}, words...)...); status != 64 ||
				!strings.Contains(p.out.String(), "--"+flag+" must not be empty") {
				t.Errorf("%q: exit status %d: %s", words, status, p.out)
			}
		}
	}
}
