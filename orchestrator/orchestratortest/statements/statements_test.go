package statements_test

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

	"mailroom/orchestrator/orchestratortest/statements"
)

var (
	begins = regexp.MustCompile(`^(SELECT|INSERT INTO|UPDATE|DELETE FROM|WITH) `)
	verb   = regexp.MustCompile(`%(\[\d+\])?[sdvq]`)
)

// TestComplete finds statements in the program that no test has run.
func TestComplete(t *testing.T) {
	all, err := statements.All()
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(all, "\n")
	for _, folder := range []string{"../..", "../../../tracing"} {
		err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && (entry.Name() == "orchestratortest" || entry.Name() == "store" || entry.Name() == "move"): // move runs once, on each kind of database
				return filepath.SkipDir
			case filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
				return nil
			}
			for at, literal := range literals(t, path) {
				if part := unrun(text, literal); part != "" {
					t.Errorf("%s: no test of these packages runs %q of %q", at, part, literal)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// literals returns the string literals in a file by their position, with single spaces, except statements that are
// shown to a person (byHand).
func literals(t *testing.T, path string) map[string]string {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			if name, ok := call.Fun.(*ast.Ident); ok && name.Name == "byHand" {
				return false
			}
		}
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			value, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			found[set.Position(literal.Pos()).String()] = strings.Join(strings.Fields(value), " ")
		}
		return true
	})
	return found
}

// unrun returns the first part of a statement, between the verbs of a format, that is not in a text, or "" if all
// are.
func unrun(text, statement string) string {
	if !begins.MatchString(statement) || statement == "SELECT * FROM (" { // encloses a user's query
		return ""
	}
	for _, part := range verb.Split(statement, -1) {
		if part = strings.TrimSpace(part); !strings.Contains(text, part) {
			return part
		}
	}
	return ""
}

// madeBefore matches an order by an ID. An ID is created before the commit, so one that is committed later may be
// smaller.
var madeBefore = regexp.MustCompile(`(ORDER BY |\b(max|min)\()(\w+\.)?(message|multicast|question|alert|request|thread|span|trace)_id\b`)

// TestOrder finds statements that use the order of IDs as the order of commits. That order is the one of seq, and of
// rowid where there is no seq.
func TestOrder(t *testing.T) {
	all, err := statements.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range all {
		switch {
		case strings.Contains(text, " FROM signal_questions WHERE TRUE"): // a list, newest first, for people
		case strings.Contains(text, " FROM threads WHERE thread_id < ?"): // the same
		case strings.Contains(text, " AND question_id > ?"): // walks through all of them, from the start each time
		case madeBefore.MatchString(text):
			t.Error(text)
		}
	}
}
