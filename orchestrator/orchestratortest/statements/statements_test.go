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

// TestComplete looks for statements in the program that no test has run.
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
			case entry.IsDir() && (entry.Name() == "orchestratortest" || entry.Name() == "store"):
				return filepath.SkipDir
			case filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go"):
				return nil
			}
			set := token.NewFileSet()
			parsed, err := parser.ParseFile(set, path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(parsed, func(n ast.Node) bool {
				literal, ok := n.(*ast.BasicLit)
				if !ok || literal.Kind != token.STRING {
					return true
				}
				value, err := strconv.Unquote(literal.Value)
				if err != nil {
					t.Fatal(err)
				}
				value = strings.Join(strings.Fields(value), " ")
				if begins.MatchString(value) && value != "SELECT * FROM (" { // around what a person asks
					for _, part := range verb.Split(value, -1) {
						if !strings.Contains(text, strings.TrimSpace(part)) {
							t.Errorf("%s: no test of these packages runs %q", set.Position(literal.Pos()), value)
							break
						}
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
}

// madeBefore finds an order by an id, which is made before the commit: one that is committed later may be the smaller.
var madeBefore = regexp.MustCompile(`(ORDER BY |\b(max|min)\()(\w+\.)?(message|multicast|question|alert|request|thread|span|trace)_id\b`)

// TestOrder looks for statements that take the order of ids for the order of commits. That is seq's, and rowid's where there
// is no seq.
func TestOrder(t *testing.T) {
	all, err := statements.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range all {
		switch {
		case strings.Contains(text, " FROM signal_questions WHERE TRUE"): // a list, newest first, for people
		case strings.Contains(text, " AND question_id > ?"): // walks all of them, each time anew
		case madeBefore.MatchString(text):
			t.Error(text)
		}
	}
}
