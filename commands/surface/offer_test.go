package surface

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"mailroom/commands"
	"mailroom/commands/connect"
	"mailroom/commands/mail"
	"mailroom/commands/signal"
	"mailroom/commands/surface/surfacetest"
	"mailroom/orchestrator"
)

// hints returns the hints in the source, and the error messages that name flags, by their location. Format verbs such
// as %s stand for the inserted text.
func hints(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, root := range []string{"../../commands", "../../orchestrator"} {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
				strings.Contains(path, "orchestratortest") {
				return err
			}
			files := token.NewFileSet()
			file, err := parser.ParseFile(files, path, nil, 0)
			if err != nil {
				return err
			}
			note := func(e ast.Expr) {
				if text := textIn(e); text != "" {
					found[files.Position(e.Pos()).String()] = text
				}
			}
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CallExpr:
					name, is := n.Fun.(*ast.SelectorExpr)
					if is && name.Sel.Name == "WithHint" {
						for _, argument := range n.Args {
							note(argument)
						}
					}
					if is && name.Sel.Name == "Errorf" && len(n.Args) > 1 && strings.Contains(textIn(n.Args[1]), "--") {
						note(n.Args[1])
					}
					own, is := n.Fun.(*ast.Ident)
					if is && own.Name == "fail" && len(n.Args) == 3 { // databaseError's
						note(n.Args[2])
					}
					if is && own.Name == "Errorf" && strings.Contains(textIn(n.Args[1]), "--") {
						note(n.Args[1])
					}
				case *ast.KeyValueExpr:
					if key, is := n.Key.(*ast.Ident); is && key.Name == "Hint" {
						note(n.Value)
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return found
}

// textIn returns the text of an expression, as far as it is constant.
func textIn(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, _ := strconv.Unquote(e.Value)
		return text
	case *ast.BinaryExpr:
		return textIn(e.X) + textIn(e.Y)
	case *ast.CallExpr:
		texts := ""
		for _, argument := range e.Args {
			texts += textIn(argument)
		}
		return texts
	}
	return ""
}

// shellOnly lists hints of errors that occur only in a shell, by the prefixes of the file's path and of the hint.
var shellOnly = []struct{ path, hint string }{
	{"commands/surface/cli/flags.go", ""}, {"commands/surface/cli/elsewhere.go", ""},
	{"commands/surface/cli/call.go", ""}, {"commands/surface/cli/cli.go", ""},
	{"commands/surface/cli/database.go", ""}, {"commands/surface/cli/start.go", ""}, {"commands/surface/cli/confirm.go", ""}, {"commands/surface/cli/jq.go", ""},
	{"commands/surface/cli/invoke.go", ""}, {"commands/surface/cli/completion.go", ""},
	{"orchestrator/router/file_client.go", ""}, {"commands/surface/listener/socket.go", ""}, {"commands/surface/cli/join.go", ""}, {"commands/surface/cli/remote.go", ""}, {"commands/surface/remote/", ""},
	{"commands/surface/web/gate.go", "Start `mailroom serve` with --host"}, {"commands/surface/mcp/arrive.go", ""},
	{"sqlite/backup.go", ""}, {"orchestrator/store/backup.go", ""}, {"sqlite/restore.go", ""}, {"sqlite/tables/migrate.go", ""}, {"sqlite/file.go", ""},
	{"sqlite/store.go", "Specify a file with --db"}, {"orchestrator/bridge/", ""},
	{"sqlite/dialect.go", "Specify another file with --db"},
	{"orchestrator/move/", ""}, {"commands/run.go", "Name the agent in"}, {"commands/team/team.go", "Pass --as NAME"}, // --as also exists in the MCP server
}

// TestHintsWithoutAShell checks that each hint in the source names existing commands and flags, in backquotes, so
// that callers over MCP and HTTP get tool and parameter names instead.
func TestHintsWithoutAShell(t *testing.T) {
	t.Parallel()
	all := commands.NewCatalogue(append(surfacetest.Catalogue().All(),
		slices.Concat(mail.Definitions(), signal.Definitions(), connect.Definitions())...))
	inShell := Offer{all: all.All()}
	for _, d := range inShell.all {
		inShell.Tools = append(inShell.Tools, Tool{d, d.Name})
	}
	var offers []Offer
	for _, admin := range []bool{false, true} {
		offers = append(offers, NewOffer(all, commands.Caller{Admin: admin, Remote: true}))
		for _, vocabulary := range all.Vocabularies() {
			offers = append(offers, NewOffer(all, commands.Caller{Admin: admin}, vocabulary))
		}
	}
	flag := regexp.MustCompile(`--([a-z][-a-z]*)`)
	// The program's own commands have no definition.
	programs := regexp.MustCompile("^mailroom (serve|console|mcp|tail|join|leave|--db|commands|invoke|run|%s --yes)")
	seen := 0
	for at, hint := range hints(t) {
		seen++
		onlyThere := false
		for _, in := range shellOnly {
			onlyThere = onlyThere || strings.Contains(at, in.path) && strings.HasPrefix(hint, in.hint)
		}
		if outside := quoted().ReplaceAllString(hint, ""); !onlyThere &&
			(flag.MatchString(outside) || strings.Contains(outside, "mailroom ")) {
			t.Errorf("%s: a line for a shell stands outside of backquotes: %s", at, hint)
		}
		for _, line := range quoted().FindAllString(hint, -1) {
			line = strings.Trim(line, "`")
			d, rest := inShell.commandOf(line)
			if !strings.HasPrefix(line, "mailroom ") || programs.MatchString(line) {
				continue
			}
			if d == nil {
				t.Errorf("%s: there is no command %q", at, line)
				continue
			}
			given, _ := inShell.parametersOf(d, rest)
			for _, f := range flag.FindAllStringSubmatch(rest, -1) {
				if name := strings.ReplaceAll(f[1], "-", "_"); !strings.Contains(strings.Join(given, ", ")+":", name) {
					t.Errorf("%s: %q has no flag %s, or it stands for nothing: %q", at, line, f[0], given)
				}
			}
		}
		for _, o := range offers {
			said := o.WithoutShell(&orchestrator.Error{Code: orchestrator.InvalidParams,
				Hint: hint}).(*orchestrator.Error).Hint
			forThePerson := strings.HasPrefix(said, "Tell the person who runs you: ") ||
				strings.HasPrefix(said, "Only a person on the daemon's machine can do that. ")
			if !onlyThere && !forThePerson && (strings.Contains(said, "mailroom ") || flag.MatchString(said)) {
				t.Errorf("%s: over MCP or HTTP it is %q", at, said)
				break
			}
		}
	}
	if seen < 150 {
		t.Errorf("only %d hints were found", seen)
	}
}
