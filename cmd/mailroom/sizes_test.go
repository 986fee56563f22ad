package main

import (
	"go/ast"
	"path"
	"reflect"
	"strings"
	"testing"

	"mailroom/commands"
)

// What a reader can hold in mind: functions that fit a screen, files and packages with one subject.
const (
	maxFunctionLines = 66
	maxFileLines     = 410
	maxTestLines     = 582 // of a file of tests; their functions may hold a table of cases of any length
	maxMethods       = 42
	maxNounLines     = 1080 // of package orchestrator
	maxPackageLines  = 3200
	maxPackageFiles  = 25
	maxEnvFields     = 5
)

// size is how many lines and files a package has without its tests.
type size struct{ lines, files int }

// larger are the packages that may be larger than others; the numbers may only fall. The parts of a store all need its connection.
var larger = map[string]size{
	"orchestrator/store/sqlite":   {3700, 31},
	"orchestrator/store/postgres": {3800, 28},
}

// lines returns how many lines a node has.
func (s source) lines(n ast.Node) int {
	return s.files.Position(n.End()).Line - s.files.Position(n.Pos()).Line + 1
}

// length returns how many lines the file has.
func (s source) length() int { return s.files.File(s.syntax.FileStart).LineCount() }

// machinery reports whether a package exists for tests alone.
func machinery(folder string) bool {
	return strings.HasSuffix(folder, "test") || strings.HasPrefix(folder, "orchestrator/orchestratortest")
}

// isEngine reports whether a folder holds a package of the engine, but neither its nouns nor machinery of tests.
func isEngine(folder string) bool {
	return strings.HasPrefix(folder, "orchestrator/") && !machinery(folder)
}

func TestFunctionsAndFilesAreShort(t *testing.T) {
	t.Parallel()
	for _, s := range sources(t) {
		limit := maxFileLines
		if s.test {
			limit = maxTestLines
		}
		if n := s.length(); n > limit {
			t.Errorf("%s has %d lines, more than %d", s.path, n, limit)
		}
		for _, d := range s.syntax.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && !s.test && s.lines(f) > maxFunctionLines {
				t.Errorf("%s: %s has %d lines, more than %d", s.path, f.Name.Name, s.lines(f), maxFunctionLines)
			}
		}
	}
}

func TestPackagesAreSmall(t *testing.T) {
	t.Parallel()
	sizes := map[string]size{}
	for _, s := range sources(t) {
		if !s.test {
			of := sizes[s.folder]
			sizes[s.folder] = size{of.lines + s.length(), of.files + 1}
		}
	}
	for folder, is := range sizes {
		limit, excepted := larger[folder]
		switch {
		case excepted:
		case folder == "orchestrator":
			limit = size{maxNounLines, maxPackageFiles}
		case !isEngine(folder):
			continue
		default:
			limit = size{maxPackageLines, maxPackageFiles}
		}
		if is.lines > limit.lines || is.files > limit.files {
			t.Errorf("%s has %d lines in %d files, more than %v", folder, is.lines, is.files, limit)
		}
	}
}

func TestTypesHaveFewMethods(t *testing.T) {
	t.Parallel()
	methods := map[string]int{}
	for _, s := range sources(t) {
		for _, d := range s.syntax.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil && !s.test && !machinery(s.folder) {
				methods[path.Join(s.folder, receiver(f))]++
			}
		}
	}
	for name, n := range methods {
		if n > maxMethods {
			t.Errorf("%s has %d methods, more than %d", name, n, maxMethods)
		}
	}
}

// TestEnvIsSmall holds what every handler gets to what a reader keeps in mind.
func TestEnvIsSmall(t *testing.T) {
	t.Parallel()
	if n := reflect.TypeFor[commands.Env]().NumField(); n > maxEnvFields {
		t.Errorf("commands.Env has %d fields, more than %d", n, maxEnvFields)
	}
}
