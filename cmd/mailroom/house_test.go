package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// The house rules that a program can check. Source: ARCHITECTURE.md.

// engine lists the packages that commands and surfaces use: nouns and verbs. The engine is assembled in router, which
// only cmd and tests may import.
var engine = []string{
	"orchestrator", "orchestrator/agenthost", "orchestrator/agents", "orchestrator/cost", "orchestrator/daemons",
	"orchestrator/delivery", "orchestrator/jsonfault", "orchestrator/ledger", "orchestrator/messages", "orchestrator/move",
	"orchestrator/nearest", "orchestrator/pattern",
	"orchestrator/hosts", "orchestrator/overview", "orchestrator/push", "orchestrator/questions",
	"orchestrator/reading", "orchestrator/removal", "orchestrator/retention",
	"orchestrator/schedules", "orchestrator/sessions", "orchestrator/store", "tracing", "orchestrator/RECORD",
}

// rows lists the packages below every kind of record: those that change rows and send messages.
var rows = []string{"orchestrator", "orchestrator/agents", "orchestrator/ledger", "orchestrator/messages",
	"orchestrator/process", "orchestrator/push", "orchestrator/store", "tracing"}

// vocabulary lists the packages that every vocabulary may use.
var vocabulary = and(engine, "commands", "commands/parameter", "commands/terminal")

func and(list []string, more ...string) []string { return slices.Concat(list, more) }

// mayImport lists which of our packages each package may import, floor by floor from the ground up. A RECORD is any
// package whose Part router lists, and a VOCABULARY any folder of commands/, unless they are named here.
var mayImport = map[string][]string{
	"":                     {},
	"tracing":              {},
	"orchestrator/nearest": {},
	"orchestrator/pattern": {},
	"tracing/otlp":         {"orchestrator/pattern"},
	"orchestrator/process": {},

	"orchestrator/jsonfault": {},

	"orchestrator": {"orchestrator/nearest", "tracing"},

	"orchestrator/confusables": {"orchestrator"},
	"orchestrator/letter":      {"orchestrator", "orchestrator/nearest"},
	"orchestrator/program":     {"orchestrator", "orchestrator/pattern", "orchestrator/process"},
	"orchestrator/push":        {"orchestrator"},
	"orchestrator/store":       {"orchestrator", "orchestrator/pattern"},

	// The stores handle requests and no rows, and do not import each other. Only router imports them.
	"orchestrator/store/bell": {"orchestrator", "orchestrator/store"},
	"orchestrator/store/sqlite": {"", "orchestrator", "orchestrator/store", "orchestrator/store/bell",
		"orchestrator/pattern", "orchestrator/store/sqlite/check", "orchestrator/store/sqlite/copies",
		"orchestrator/store/sqlite/tables", "tracing"},
	"orchestrator/store/sqlite/check": {"orchestrator", "orchestrator/store",
		"orchestrator/store/sqlite/copies"},
	"orchestrator/store/sqlite/copies": {"orchestrator", "orchestrator/pattern", "orchestrator/store"},
	"orchestrator/store/sqlite/tables": {"", "orchestrator", "orchestrator/pattern", "orchestrator/store"},
	"orchestrator/store/postgres": {"orchestrator", "orchestrator/pattern", "orchestrator/store",
		"orchestrator/store/postgres/check", "orchestrator/store/postgres/pulse", "orchestrator/store/postgres/wire"},
	"orchestrator/store/postgres/check": {"orchestrator", "orchestrator/pattern", "orchestrator/store"},
	"orchestrator/store/postgres/pulse": {"orchestrator", "orchestrator/store/postgres/wire"},
	"orchestrator/store/postgres/wire":  {"orchestrator/pattern", "orchestrator/store"},
	// Packages that carry messages outward do not get the ledger.
	"orchestrator/transport": {"orchestrator", "orchestrator/letter", "orchestrator/program", "orchestrator/push"},
	"orchestrator/agenthost": {"orchestrator/hosts", "orchestrator/pattern", "orchestrator/process", "orchestrator/store"},

	"orchestrator/ledger": {"orchestrator", "orchestrator/jsonfault", "orchestrator/push", "orchestrator/store",
		"tracing"},
	"orchestrator/agents": {"orchestrator", "orchestrator/confusables", "orchestrator/ledger", "orchestrator/program",
		"orchestrator/store", "tracing"},
	"orchestrator/messages": {"orchestrator", "orchestrator/agents", "orchestrator/ledger", "orchestrator/process",
		"orchestrator/push", "orchestrator/store", "tracing"},
	"orchestrator/adoption": rows,
	"orchestrator/cost":     {"orchestrator", "orchestrator/ledger", "orchestrator/store"},
	"orchestrator/daemons":  {"orchestrator", "orchestrator/ledger", "orchestrator/process", "orchestrator/store"},
	"orchestrator/delivery": and(rows, "orchestrator/adoption"),
	"orchestrator/exports":  and(rows, "tracing/otlp"),

	// The kinds of records do not import each other, except that an answer of the user may be for a team's request.
	// Only reading delivers.
	"orchestrator/reading":   and(rows, "orchestrator/adoption", "orchestrator/delivery"),
	"orchestrator/hosts":     and(rows, "orchestrator/cost", "orchestrator/delivery", "orchestrator/reading", "orchestrator/removal"),
	"orchestrator/schedules": and(rows, ""),
	"orchestrator/RECORD":    rows,
	"orchestrator/sessions":  and(rows, "orchestrator/program"),
	"orchestrator/questions": and(rows, "orchestrator/teams"),

	"orchestrator/removal":   and(rows, "orchestrator/adoption", "orchestrator/delivery"),
	"orchestrator/retention": and(rows, "orchestrator/cost", "orchestrator/delivery", "orchestrator/traffic"),
	"orchestrator/overview": and(rows, "orchestrator/adoption", "orchestrator/cost", "orchestrator/daemons", "orchestrator/delivery",
		"orchestrator/hosts", "orchestrator/questions", "orchestrator/schedules", "orchestrator/sessions"),
	"orchestrator/bridge": and(rows, "orchestrator/bridge/letters", "orchestrator/daemons",
		"orchestrator/delivery", "orchestrator/letter"),
	"orchestrator/bridge/letters": and(rows, "orchestrator/delivery"),
	"orchestrator/move": {"orchestrator", "orchestrator/ledger", "orchestrator/person", "orchestrator/store",
		"tracing"},
	"orchestrator/watchdog": and(rows, "orchestrator/delivery", "orchestrator/program", "orchestrator/sessions"),
	"orchestrator/person": and(rows, "orchestrator/confusables", "orchestrator/delivery",
		"orchestrator/overview", "orchestrator/questions"),
	"orchestrator/router": and(rows, "orchestrator/delivery", "orchestrator/hosts", "orchestrator/questions",
		"orchestrator/reading", "orchestrator/sessions", "orchestrator/store/postgres", "orchestrator/store/sqlite",
		"orchestrator/RECORD"),
	"commands/parameter": {"orchestrator", "orchestrator/nearest"},
	"commands/terminal":  {"orchestrator", "orchestrator/pattern"},
	"commands": and(engine, "commands/parameter", "commands/terminal", "orchestrator/bridge/letters",
		"orchestrator/confusables", "orchestrator/process"),
	"commands/VOCABULARY": vocabulary,
	"commands/ralph": and(vocabulary, "orchestrator/bridge", "orchestrator/bridge/letters", "orchestrator/letter",
		"orchestrator/watchdog"),
	"commands/admin": {"commands", "commands/admin/inspection", "commands/admin/operations",
		"commands/admin/roster"},
	"commands/admin/inspection": vocabulary,
	"commands/admin/operations": and(vocabulary, "orchestrator/person"),
	"commands/admin/roster":     and(vocabulary, "orchestrator/certificate"),
	"commands/signal":           and(vocabulary, "orchestrator/letter", "orchestrator/person"),
	"commands/surface":          {"commands", "commands/parameter", "orchestrator", "orchestrator/pattern"},
	"commands/surface/listener": {"commands", "orchestrator"},
	"orchestrator/certificate":  {},
	"commands/surface/remote":   {"commands", "commands/surface/listener", "orchestrator", "orchestrator/certificate", "orchestrator/process", "orchestrator/store"},
	"commands/surface/console":  {"commands/surface/listener"},
	"commands/surface/hook":     and(engine, "commands", "orchestrator/person", "orchestrator/process"),
	"commands/surface/web": and(engine, "commands", "commands/surface", "commands/surface/console", "commands/surface/remote", "orchestrator/certificate",
		"commands/surface/listener", "commands/surface/phone"),
	"commands/surface/phone": and(engine, "commands", "commands/surface/listener", "orchestrator/person"),
	"commands/surface/mcp": and(engine, "commands", "commands/surface", "commands/surface/listener",
		"commands/surface/web"),
	"commands/surface/daemon": and(engine, "commands", "commands/surface/listener", "commands/surface/mcp",
		"commands/surface/phone", "commands/surface/web",
		"orchestrator/exports", "orchestrator/person", "orchestrator/watchdog", "tracing/otlp"),
	"commands/surface/cli": and(vocabulary, "orchestrator/process", "commands/surface", "commands/surface/daemon",
		"commands/surface/hook", "commands/surface/listener", "commands/surface/mcp", "commands/surface/phone",
		"commands/surface/remote", "commands/surface/web", "tracing/otlp"),

	// Packages for tests.
	"orchestrator/store/postgres/postgrestest": {},
	"orchestrator/store/storetest": {"orchestrator", "orchestrator/orchestratortest/helper",
		"orchestrator/store"},
	"orchestrator/orchestratortest":        {"", "tracing", "orchestrator"},
	"orchestrator/orchestratortest/corpus": {},
	"orchestrator/orchestratortest/enginetest": and(engine, "orchestrator/orchestratortest/statements",
		"orchestrator/router", "orchestrator/transport",
		"orchestrator/store/postgres", "orchestrator/store/postgres/postgrestest", "orchestrator/store/postgres/wire"),
	"orchestrator/orchestratortest/example":    and(engine, "orchestrator/router", "orchestrator/transport"),
	"orchestrator/orchestratortest/ha":         {},
	"orchestrator/orchestratortest/helper":     {},
	"orchestrator/orchestratortest/history":    {}, // it relies on nothing that it checks
	"orchestrator/orchestratortest/kills":      {"orchestrator/orchestratortest/history"},
	"orchestrator/orchestratortest/statements": {"orchestrator/store"},
	"orchestrator/orchestratortest/powerloss":  and(engine, "orchestrator/router", "orchestrator/transport"),
	"orchestrator/orchestratortest/torture": and(engine, "orchestrator/router",
		"orchestrator/orchestratortest/history", "orchestrator/store/postgres"),
	"orchestrator/orchestratortest/want": {"orchestrator"},
	"commands/surface/bundletest":        {},
	"commands/surface/phone/browsertest": {"orchestrator"},
	"commands/surface/surfacetest": and(engine, "commands", "commands/admin", "commands/coral", "commands/ralph",
		"commands/relay", "commands/route",
		"commands/team", "orchestrator/orchestratortest/enginetest", "orchestrator/router", "orchestrator/transport"),
}

// mayReach lists which packages, other than those for tests, may import a package that accesses the machine: a
// driver, or system calls.
var mayReach = map[string][]string{
	"github.com/mattn/go-sqlite3": {"orchestrator/store/sqlite"},
	"github.com/jackc/pgx/v5/pgconn": {"orchestrator/store/postgres", "orchestrator/store/postgres/wire",
		"orchestrator/store/postgres/postgrestest"},
	"golang.org/x/sys/unix": {"orchestrator/store/bell", "orchestrator/store/sqlite",
		"orchestrator/store/sqlite/check", "orchestrator/store/sqlite/copies",
		"orchestrator/bridge", "orchestrator/letter",
		"orchestrator/process", "orchestrator/program",
		"orchestrator/transport", "commands/surface/cli", "commands/surface/listener", "commands/surface/web"},
	"golang.org/x/sys/windows": {"orchestrator/process", "commands/surface/cli"},
}

// forbiddenFolders are names that could contain anything, so that nothing can be found in them.
var forbiddenFolders = []string{"util", "utils", "common", "helpers", "misc", "internal", "pkg", "shared"}

// source is one Go file of the repository.
type source struct {
	path   string // from the top, with /
	folder string
	test   bool
	files  *token.FileSet
	syntax *ast.File
}

// sources parses every Go file of the repository.
func sources(t *testing.T) (list []source) {
	t.Helper()
	top := filepath.Join("..", "..")
	set := token.NewFileSet()
	err := filepath.WalkDir(top, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && (entry.Name() == "testdata" || (strings.HasPrefix(entry.Name(), ".") && file != top)) {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(file, ".go") {
			return nil
		}
		syntax, err := parser.ParseFile(set, file, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		from, err := filepath.Rel(top, file)
		if err != nil {
			return err
		}
		from = filepath.ToSlash(from)
		folder := path.Dir(from)
		if folder == "." {
			folder = ""
		}
		list = append(list,
			source{path: from, folder: folder, test: strings.HasSuffix(file, "_test.go"), files: set, syntax: syntax})
		return nil
	})
	if err != nil || len(list) == 0 {
		t.Fatalf("no sources: %v", err)
	}
	return list
}

// alone reports whether a folder is a separate module, from which the program uses nothing.
func alone(folder string) bool {
	return slices.Contains([]string{"bench", "otlptest", "packaging"}, folder)
}

// rule returns the key of a folder in mayImport.
func rule(folder string) string {
	switch _, named := mayImport[folder]; {
	case !named && slices.Contains(records(), path.Base(folder)) && path.Dir(folder) == "orchestrator":
		return "orchestrator/RECORD"
	case !named && path.Dir(folder) == "commands":
		return "commands/VOCABULARY"
	}
	return folder
}

// records returns the packages whose Parts router lists.
var records = sync.OnceValue(func() (names []string) {
	code, err := os.ReadFile("../../orchestrator/router/router.go")
	if err != nil {
		panic(err)
	}
	for _, part := range regexp.MustCompile(`(\w+)\.Part\(\)`).FindAllStringSubmatch(string(code), -1) {
		names = append(names, part[1])
	}
	return names
})

// TestImportsRunOneWay checks the order of imports: cmd, then the surfaces, then the vocabularies, then commands,
// then the engine's floors, then the root and tracing. Only cmd combines router, vocabularies, transports and the
// command line. Of the surfaces, cli is above daemon, which is above mcp and phone, which are above web and listener.
func TestImportsRunOneWay(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for _, s := range sources(t) {
		if s.test || strings.HasPrefix(s.folder, "cmd/") || alone(s.folder) {
			continue
		}
		allowed, known := mayImport[rule(s.folder)]
		if !known {
			t.Errorf("%s is in a folder that no rule of mayImport is for", s.path)
		}
		for _, spec := range s.syntax.Imports {
			name, _ := strconv.Unquote(spec.Path.Value)
			ours, isOurs := strings.CutPrefix(name+"/", "mailroom/")
			if ours = strings.TrimSuffix(ours, "/"); isOurs && !slices.Contains(allowed, ours) &&
				!slices.Contains(allowed, rule(ours)) {
				t.Errorf("%s imports %s; it may import only %q of ours", s.path, name, allowed)
			}
			if folders, bound := mayReach[name]; bound &&
				!strings.HasPrefix(s.folder, "orchestrator/orchestratortest") && !slices.Contains(folders, s.folder) {
				t.Errorf("%s imports %s; only %q may", s.path, name, folders)
			}
			used[s.folder+" "+name] = true
		}
	}
	for name, folders := range mayReach {
		for _, folder := range folders {
			if !used[folder+" "+name] {
				t.Errorf("%s need not import %s any more: take it out of mayReach", folder, name)
			}
		}
	}
}

// TestFoldersHaveASubject rejects folders whose names describe nothing.
func TestFoldersHaveASubject(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		for name := range strings.SplitSeq(s.folder, "/") {
			if slices.Contains(forbiddenFolders, name) {
				t.Errorf("%s stands in %s/, which says nothing about it", s.path, name)
			}
		}
	}
}

// TestEverythingExportedIsDocumented covers packages, types, functions, methods of exported types, variables and
// constants. A group of variables or constants may share a comment.
func TestEverythingExportedIsDocumented(t *testing.T) {
	t.Parallel()
	documented := map[string]bool{}
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		documented[s.folder] = documented[s.folder] || s.syntax.Doc.Text() != ""
		for _, name := range undocumented(s.syntax) {
			t.Errorf("%s: %s has no doc comment", s.path, name)
		}
	}
	for folder, has := range documented {
		if !has {
			t.Errorf("the package in %q has no doc comment", folder)
		}
	}
}

// undocumented lists the exported names of a file that lack a comment.
func undocumented(file *ast.File) (names []string) {
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() && d.Doc.Text() == "" && exportedReceiver(d) && !wellKnown(d) {
				names = append(names, d.Name.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				names = append(names, undocumentedSpec(d, spec)...)
			}
		}
	}
	return names
}

func undocumentedSpec(d *ast.GenDecl, spec ast.Spec) (names []string) {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		if s.Name.IsExported() && d.Doc.Text() == "" && s.Doc.Text() == "" {
			names = append(names, s.Name.Name)
		}
	case *ast.ValueSpec:
		for _, name := range s.Names {
			if name.IsExported() && d.Doc.Text() == "" && s.Doc.Text() == "" && s.Comment.Text() == "" {
				names = append(names, name.Name)
			}
		}
	}
	return names
}

// wellKnown reports whether a method's name needs no comment, because the standard library defines its meaning.
func wellKnown(d *ast.FuncDecl) bool {
	return d.Recv != nil && slices.Contains([]string{"Error", "Unwrap", "String"}, d.Name.Name)
}

// exportedReceiver reports whether a function is not a method, or a method of an exported type.
func exportedReceiver(d *ast.FuncDecl) bool {
	of := receiver(d)
	return of == "" || ast.IsExported(of)
}

// TestGoroutinesRecover checks that every goroutine of the program recovers from panics, by itself or within the
// helper that starts it. A panic that is not recovered ends the process with status 2, which agent hosts interpret as
// "block".
func TestGoroutinesRecover(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if s.test || alone(s.folder) {
			continue
		}
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			if start, ok := n.(*ast.GoStmt); ok && !mentions(start, "recover") {
				t.Errorf("%s: the goroutine does not recover from a panic", s.files.Position(start.Pos()))
			}
			return true
		})
	}
}

// TestTestsDoNotSleep checks that tests wait for signals, never for time.
func TestTestsDoNotSleep(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		if !s.test {
			continue
		}
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			call, ok := n.(*ast.SelectorExpr)
			if !ok || call.Sel.Name != "Sleep" {
				return true
			}
			if of, isName := call.X.(*ast.Ident); isName && of.Name == "time" {
				t.Errorf("%s: a test sleeps", s.files.Position(call.Pos()))
			}
			return true
		})
	}
}

// mentions reports whether a name is used anywhere below a node.
func mentions(node ast.Node, name string) (found bool) {
	ast.Inspect(node, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && id.Name == name {
			found = true
		}
		return !found
	})
	return found
}

// TestStatementsArePlannedOnce checks that no bare parameter follows LIMIT or OFFSET, because SQLite would plan such
// a statement again for every value; see the comment on statement in orchestrator/store/sqlite/conn.go.
func TestStatementsArePlannedOnce(t *testing.T) {
	t.Parallel()
	bare := regexp.MustCompile(`(?i)\b(LIMIT|OFFSET)\s+[?:@$]`)
	for _, s := range sources(t) {
		if s.test || alone(s.folder) {
			continue
		}
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			if text, ok := n.(*ast.BasicLit); ok && bare.MatchString(text.Value) {
				t.Errorf("%s: a bare parameter behind LIMIT or OFFSET; write +?", s.files.Position(text.Pos()))
			}
			return true
		})
	}
}

// TestTestsThatAreNamedExist checks that the tests named in docs/guarantees.md exist.
func TestTestsThatAreNamedExist(t *testing.T) {
	t.Parallel()
	there := map[string]bool{}
	for _, s := range sources(t) {
		for _, d := range s.syntax.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && s.test {
				there[f.Name.Name] = true
			}
		}
	}
	for _, doc := range []string{"ARCHITECTURE.md", "docs/guarantees.md"} {
		text, err := os.ReadFile(filepath.Join("..", "..", doc))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w*`).FindAllString(string(text), -1) {
			if !there[name] {
				t.Errorf("%s names %s, which does not exist", doc, name)
			}
		}
	}
}

// TestRepositoryHasItsDoors checks that the names that newcomers are given exist at the top of the repository.
func TestRepositoryHasItsDoors(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"commands", "orchestrator", "schema.sql", "cmd", "tracing", "go.mod", "go.sum"} {
		if _, err := os.Stat(filepath.Join("..", "..", name)); err != nil {
			t.Error(err)
		}
	}
}
