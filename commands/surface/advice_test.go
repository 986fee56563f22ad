package surface

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"mailroom/commands"
	"mailroom/commands/mail"
	"mailroom/commands/signal"
	"mailroom/orchestrator"
	"mailroom/orchestrator/transport"
)

// hints returns the hints that stand in the source, and the messages of errors that name flags, by where they stand; %s and such stand for what is put in.
func hints(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, root := range []string{"../../commands", "../../orchestrator"} {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || strings.Contains(path, "orchestratortest") {
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

// textIn is the text that an expression makes, as far as it stands there.
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

// shellOnly are hints of errors that are met in a shell alone, by the start of the file's path and of the hint.
var shellOnly = []struct{ path, hint string }{
	{"commands/surface/argv.go", ""}, {"commands/surface/call.go", ""}, {"commands/surface/cli.go", ""}, {"commands/surface/database.go", ""},
	{"commands/surface/invoke.go", ""}, {"commands/surface/gate.go", "Start the daemon with --host"}, {"commands/surface/mcp_arrive.go", ""},
	{"orchestrator/backup.go", ""}, {"orchestrator/restore.go", ""}, {"orchestrator/migrate.go", ""}, {"orchestrator/reader.go", ""},
	{"orchestrator/sqlite.go", "Name a file with --db"}, {"orchestrator/bridge/", ""}, {"orchestrator/dialect.go", "Name another file with --db"},
	{"commands/run.go", "Name the agent in"}, {"commands/team/team.go", "Say --as NAME"}, // --as is also of the MCP server
}

// TestHintsWithoutAShell: each hint in the source names commands and flags that there are, within backquotes, so that whoever
// calls over MCP or HTTP is told of tools and parameters.
func TestHintsWithoutAShell(t *testing.T) {
	t.Parallel()
	all := commands.NewCatalogue(append(catalogue().All(), append(mail.Definitions(), signal.Definitions()...)...))
	inShell := offer{all: all.All()}
	for _, d := range inShell.all {
		inShell.tools = append(inShell.tools, offered{d, d.Name})
	}
	var offers []offer
	for _, admin := range []bool{false, true} {
		offers = append(offers, offerTo(all, admin))
		for _, vocabulary := range all.Vocabularies() {
			o := offer{all: all.All()}
			for _, d := range o.all {
				if _, is := cardFor(d, admin); is && served(d, []string{vocabulary}) {
					o.tools = append(o.tools, offered{d, d.Tool})
				}
			}
			offers = append(offers, o)
		}
	}
	flag := regexp.MustCompile(`--([a-z][-a-z]*)`)
	// What has no definition is the program's own.
	programs := regexp.MustCompile("^mailroom (serve|mcp|--db|commands|invoke)")
	seen := 0
	for at, hint := range hints(t) {
		seen++
		onlyThere := false
		for _, in := range shellOnly {
			onlyThere = onlyThere || strings.Contains(at, in.path) && strings.HasPrefix(hint, in.hint)
		}
		if outside := quoted().ReplaceAllString(hint, ""); !onlyThere && (flag.MatchString(outside) || strings.Contains(outside, "mailroom ")) {
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
			said := o.withoutShell(&orchestrator.Error{Code: orchestrator.InvalidParams, Hint: hint}).(*orchestrator.Error).Hint
			forThePerson := strings.HasPrefix(said, "Tell the person who runs you: ") || strings.HasPrefix(said, "Only somebody on the daemon's machine can do that. ")
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

// TestAdviceWhereLessIsOffered: who cannot follow a hint is told who can, or nothing when there is only something to see.
func TestAdviceWhereLessIsOffered(t *testing.T) {
	t.Parallel()
	e := listenTo(t, openWith(t, orchestrator.Options{
		Path: t.TempDir() + "/mailroom.db", Transports: map[string]orchestrator.Transport{"inbox": transport.Inbox{}, "webhook": new(transport.Webhook)},
	}))
	if _, _, err := e.router.AddAgent(t.Context(), orchestrator.AgentUpdate{Name: "builder"}); err != nil {
		t.Fatal(err)
	}
	status, text := e.run(e.token("builder", true), "agent_add", `{"name":"hook","deliver":"webhook:http://127.0.0.1/x"}`)
	const allow = "If that is meant, allow it: `mailroom agent add hook --deliver webhook:http://127.0.0.1/x --allow-private`"
	if status != 400 || !strings.Contains(text, `"hint":"Only somebody on the daemon's machine can do that. `+allow+`"`) {
		t.Errorf("a private address over HTTP: %d %s", status, text)
	}
	onTheMachine := offerTo(catalogue(), true)
	onTheMachine.remote = false
	hint := onTheMachine.withoutShell(&orchestrator.Error{Code: orchestrator.InvalidParams, Hint: allow}).(*orchestrator.Error).Hint
	if hint != "If that is meant, allow it: agent_add (name: hook, deliver: webhook:http://127.0.0.1/x, allow_private: true)" {
		t.Errorf("a private address over MCP on the machine itself: %s", hint)
	}
	env := envOf(e.router)
	env.Catalogue = commands.NewCatalogue(append(catalogue().All(), mail.Definitions()...))
	s, _ := piped(t, newToolServer(env).server("v1", false, "relay"), "builder", nil)
	if text, failed := called(t, s, "get_message", `{"message_id":"m"}`); !failed || !strings.Contains(text, "no message") || strings.Contains(text, "hint") {
		t.Errorf("an id that is mistyped, where nothing finds one: %s", text)
	}
}
