package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"mailroom/commands"
	"mailroom/commands/connect"
	"mailroom/commands/mail"
	"mailroom/commands/signal"
	"mailroom/commands/surface/surfacetest"
)

// sorted returns the words of a parsed line: global flags, the command, its flags, its arguments.
func sorted(l *line) []string {
	words := l.argv()[1:]
	return slices.Insert(words, len(l.globals), l.path...)
}

func TestReadArgsSortsWords(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"try red":                             "try -- red",
		"try red --yes more":                  "try --yes -- red more",
		"try --output json red --thread-id x": "--output json try --thread-id x -- red",
		"--thread-id x try":                   "try --thread-id x",
		"--thread-id=x --db=y try red":        "--db=y try --thread-id=x -- red",
		"try --batch-size -5 red":             "try --batch-size -5 -- red",
		"try --payload -- red":                "try --payload -- -- red",
		"try -- --yes red":                    "try -- --yes red",
		"try -":                               "try -- -",
		"TRY --as a":                          "--as a try",
		"many-lines":                          "-- many-lines",
		"many LINES --stdin":                  "many lines --stdin",
		"help many lines":                     "--help many lines",
		"try help":                            "try -- help",
		"invoke try {} --output text":         "--output text invoke -- try {}",
		"try try":                             "try -- try",
		"try --yes=false --group a --group b": "try --yes=false --group a --group b",
	} {
		p := newProgram("")
		surfacetest.Equal(t, in, strings.Join(sorted(p.readArgs(strings.Fields(in))), " "), want)
	}
}

func TestFlagsBecomeParams(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                      `{"BATCH_SIZE":10,"timeout":30}`,
		"red":                   `{"word":"red","BATCH_SIZE":10,"timeout":30}`,
		"red a,b c":             `{"word":"red","REST":["a,b","c"],"BATCH_SIZE":10,"timeout":30}`,
		"--word red a":          `{"word":"red","REST":["a"],"BATCH_SIZE":10,"timeout":30}`,
		"--thread-id 7":         `{"threadId":"7","BATCH_SIZE":10,"timeout":30}`,
		"--batch-size -5":       `{"BATCH_SIZE":-5,"timeout":30}`,
		"--ratio 0.5 --yes":     `{"BATCH_SIZE":10,"ratio":0.5,"yes":true,"timeout":30}`,
		"--group a,b --group c": `{"BATCH_SIZE":10,"group":["a,b","c"],"timeout":30}`,
		`--payload {"n":1.10}`:  `{"BATCH_SIZE":10,"payload":{"n":1.10},"timeout":30}`,
		"--payload -":           `{"BATCH_SIZE":10,"payload":["input"],"timeout":30}`,
		"--timeout 2h":          `{"BATCH_SIZE":10,"timeout":7200}`,
		"--timeout 30d --yes=1": `{"BATCH_SIZE":10,"yes":true,"timeout":2592000}`,
		"--timeout 90":          `{"BATCH_SIZE":10,"timeout":90}`,
		"-- green -x":           `{"word":"green","REST":["-x"],"BATCH_SIZE":10,"timeout":30}`,
	} {
		p := newProgram(`["input"]`)
		if status := p.run(append([]string{"try"}, strings.Fields(in)...)...); status != 0 {
			t.Errorf("try %s: exit status %d: %s", in, status, p.out)
			continue
		}
		surfacetest.Equal(t, "try "+in, p.out.String(), `{"success":true,"action":"try","got":`+want+"}\n")
	}
}

// TestMistakesAreAnswered checks the exit status and the JSON error of each mistake.
func TestMistakesAreAnswered(t *testing.T) {
	t.Parallel()
	for in, says := range map[string]string{
		"tyr":                                    "Did you mean try?",
		"many line":                              "Did you mean lines?",
		"many":                                   "Add one of these commands: lines",
		"try --wrod red":                         "Did you mean --word?",
		"try --zzzzzz":                           "To list the flags, run `mailroom try --help`",
		"--zzzzzz":                               "mailroom has no flag --zzzzzz",
		"try --word":                             "--word needs a value",
		"try --word pink":                        `word: must be one of red, green, blue, but is \"pink\"`,
		"try --yes=maybe":                        "invalid boolean value",
		"try --batch-size ten":                   `BATCH_SIZE: must be a whole number (-9 to 1000), but is \"ten\"`,
		"try --batch-size 1001":                  "-9 to 1000",
		"try --timeout 1.5s":                     "must be a whole number of seconds",
		"try --timeout soon":                     "timeout",
		"try --payload {n:1}":                    "not valid JSON",
		"try --payload @/nowhere":                "no such file",
		"try --payload - --output yaml":          "must be json or text",
		"--as ../x try":                          "is not a valid name",
		"invoke":                                 "`mailroom invoke` requires the name of a command",
		"invoke try {} {}":                       "`mailroom invoke` takes a name",
		"invoke try []":                          "must be a JSON object",
		`invoke try {"word":"red","WORD":"red"}`: "given twice",
		"many lines --said a --stdin":            "--said cannot be used with --stdin",
		"many lines --said a --atomic":           "--atomic requires --stdin",
		"many lines x":                           "too many arguments",
	} {
		p := newProgram("")
		if status := p.run(strings.Fields(in)...); status != 64 {
			t.Errorf("%s: exit status %d; want 64", in, status)
		}
		var answer map[string]any
		if err := json.Unmarshal(p.out.Bytes(), &answer); err != nil || answer["success"] != false ||
			!strings.Contains(p.out.String(), says) {
			t.Errorf("%s answers %s; want %s", in, p.out, says)
		}
	}
}

func TestWordsThatAreNoUnicodeAreRefused(t *testing.T) {
	t.Parallel()
	for _, words := range [][]string{{"try", "--thread-id", "a\xff"}, {"try", "--group", "a\xff"},
		{"try", "--payload", "\"\xff\""}, {"try", "red", "\xff"}} {
		p := newProgram("")
		if status := p.run(words...); status != 64 || !strings.Contains(p.out.String(), "not valid UTF-8") {
			t.Errorf("%q: exit status %d: %s", words, status, p.out)
		}
	}
}

func TestMistakesAnswerAsOutputAsks(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"tyr --output text", "--output=text tyr", "try --zzzzzz --output text"} {
		p := newProgram("")
		if status := p.run(strings.Fields(in)...); status != 64 || p.out.Len() > 0 ||
			!strings.HasPrefix(p.err.String(), "mailroom: ") {
			t.Errorf("%s: exit status %d, output %q, error %q", in, status, p.out, p.err)
		}
	}
}

// TestGlobalSwitches checks that the value of a switch decides, and that the value of another flag is not a switch.
func TestGlobalSwitches(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"try red --output=text":           "text",
		"try red --text=true":             "text",
		"try red --text=false":            "",
		"try red --session -text":         "",
		"try red --session -v --json":     "json",
		"--output json try --output=text": "text",
	} {
		p := newProgram("")
		p.Getenv = func(string) string { return "" }
		l := p.readArgs(strings.Fields(in))
		output, err := p.outputOf(l)
		if output != want || err != nil || l.has(helpFlags...) || l.has(versionFlags...) {
			t.Errorf("%s: output %q, %v, help %t, version %t", in, output, err, l.has(helpFlags...),
				l.has(versionFlags...))
		}
	}
}

func TestStandardInputIsOneParameterOnly(t *testing.T) {
	t.Parallel()
	p := newProgram("1")
	p.inputTaken = true
	if status := p.run("try", "--payload", "-"); status != 64 ||
		!strings.Contains(p.out.String(), "only one parameter") {
		t.Errorf("exit status %d: %s", status, p.out)
	}
}

func TestAFlagThatClashesPanics(t *testing.T) {
	t.Parallel()
	clash := commands.Define(surfacetest.Vocabulary("try", "try"), "try", func(context.Context, commands.Env, struct {
		As string `json:"as" desc:"a name"`
	}) (echo, error) {
		return echo{}, nil
	})
	defer func() {
		if e := recover(); e == nil {
			t.Error("a flag that is a global one too is accepted")
		}
	}()
	flagsOf(clash.Definition)
}

// allElsewhere returns all words of other tools.
func allElsewhere() map[string]string {
	all := maps.Clone(elsewhere)
	maps.Copy(all, aliases)
	for word, group := range groupAliases {
		all[word] = group + " list"
	}
	return all
}

// TestAliases checks that a word of another tool runs the command of Mailroom, also within a group, and that a group
// by another name lists its contents.
func TestAliases(t *testing.T) {
	t.Parallel()
	all := slices.Concat(surfacetest.Catalogue().All(), mail.Definitions(), signal.Definitions(), connect.Definitions())
	p := &Program{Config: Config{Catalogue: commands.NewCatalogue(all)}}
	for in, want := range map[string]string{
		"ls": "list", "--json LS x": "list", "who": "agent list", "agents": "agent list", "agents add x": "agent add",
		"agents ls": "agent list", "config get x": "setting get", "dlq": "dead_letters list", "agent create x": "agent add",
		"msg ls x": "send", "send ls x": "send",
	} {
		if got := strings.Join(p.readArgs(strings.Fields(in)).path, " "); got != want {
			t.Errorf("%s is %q; want %q", in, got, want)
		}
	}
}

// TestElsewhere checks that no word of other tools hides a command of Mailroom, and that each leads to one.
func TestElsewhere(t *testing.T) {
	t.Parallel()
	all := slices.Concat(surfacetest.Catalogue().All(), mail.Definitions(), signal.Definitions(), connect.Definitions())
	p := &Program{Config: Config{Catalogue: commands.NewCatalogue(all)}}
	for word, ours := range allElsewhere() {
		if slices.Contains(names(p.below(nil)), word) {
			t.Errorf("%s is a command", word)
		}
		l := p.readArgs(strings.Fields(ours))
		if err := cmp.Or(l.checkCommand(), l.checkFlags()); l.called == nil || err != nil || len(l.called.Flags) == 0 &&
			len(l.next) > 0 {
			t.Errorf("%s leads to %q: %v", word, ours, err)
		}
	}
}
