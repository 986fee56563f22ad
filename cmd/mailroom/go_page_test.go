package main

import (
	"go/ast"
	"go/doc"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// goBlock matches a block of code in docs/go.md, after a comment with its source: a package, and the name of an
// Example or of a type. For an Example that opens a database with example.Open, the page shows the code after that.
var goBlock = regexp.MustCompile("(?s)<!-- (\\S+) (\\w+) -->\n```go\n(.*?)```\n")

// TestGoPage compares docs/go.md with the program: its code is that of the Examples, which are tests; the names in it
// exist; and it describes every package below orchestrator.
func TestGoPage(t *testing.T) {
	t.Parallel()
	files := sources(t)
	file := filepath.Join("..", "..", "docs", "go.md")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	blocks := 0
	page := goBlock.ReplaceAllStringFunc(string(text), func(block string) string {
		blocks++
		parts := goBlock.FindStringSubmatch(block)
		code := declared(t, files, parts[1], parts[2])
		if _, after, found := strings.Cut(code, "defer done()\n\n"); found {
			code = after
		}
		if code == "" {
			t.Errorf("docs/go.md: there is no %s in %s", parts[2], parts[1])
		}
		return "<!-- " + parts[1] + " " + parts[2] + " -->\n```go\n" + code + "```\n"
	})
	if *update {
		if err := os.WriteFile(file, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if page != string(text) {
		t.Error("the code in docs/go.md is not that of the examples: go test ./cmd/mailroom -run TestGoPage -update")
	}
	if fences := strings.Count(page, "```go\n"); blocks != fences || blocks == 0 {
		t.Errorf("docs/go.md has %d blocks of code, and of %d it is said where they are from", fences, blocks)
	}
	checkGoNames(t, files, goBlock.ReplaceAllString(page, ""))
}

// goRow matches a row of the table of packages in docs/go.md, for one package or several.
var goRow = regexp.MustCompile("(?m)^\\| ((?:`[a-z]+`(?:, )?)+) \\|")

// TestGoPackagesHaveExamples checks that every package in docs/go.md has an Example of its use.
func TestGoPackagesHaveExamples(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "go.md"))
	if err != nil {
		t.Fatal(err)
	}
	has := map[string]bool{}
	for _, s := range sources(t) {
		has[path.Base(s.folder)] = has[path.Base(s.folder)] || s.test && len(doc.Examples(s.syntax)) > 0
	}
	rows := goRow.FindAllStringSubmatch(string(page), -1)
	if len(rows) == 0 {
		t.Fatal("docs/go.md has no table of packages")
	}
	for _, row := range rows {
		for name := range strings.SplitSeq(strings.ReplaceAll(row[1], "`", ""), ", ") {
			if !has[name] {
				t.Errorf("docs/go.md names package %s, which has no Example", name)
			}
		}
	}
}

// declared returns the source of an Example's body, or of a type with its methods, from a package or its tests.
func declared(t *testing.T, files []source, folder, name string) string {
	t.Helper()
	var parts []string
	for _, s := range files {
		if s.folder != folder {
			continue
		}
		for _, decl := range s.syntax.Decls {
			from, to := decl.Pos(), decl.End()
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && d.Name.Name == name {
					from, to = d.Body.Lbrace+1, d.Body.Rbrace
				} else if receiver(d) != name {
					continue
				}
			case *ast.GenDecl:
				if spec, ok := d.Specs[0].(*ast.TypeSpec); !ok || spec.Name.Name != name {
					continue
				}
				if d.Doc != nil {
					from = d.Doc.Pos()
				}
			}
			parts = append(parts, unindented(t, s, from, to))
		}
	}
	return strings.Join(parts, "\n")
}

// receiver returns the type of a method, or "" for a function.
func receiver(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	of := d.Recv.List[0].Type
	if pointer, ok := of.(*ast.StarExpr); ok {
		of = pointer.X
	}
	name, _ := of.(*ast.Ident)
	if name == nil {
		return ""
	}
	return name.Name
}

// unindented returns a part of a file, without the tab before the lines of a body.
func unindented(t *testing.T, s source, from, to token.Pos) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(s.path)))
	if err != nil {
		t.Fatal(err)
	}
	part := string(text[s.files.Position(from).Offset:s.files.Position(to).Offset])
	if body, ok := strings.CutPrefix(part, "\n\t"); ok {
		part = strings.ReplaceAll(body, "\n\t", "\n")
	}
	return strings.TrimRight(part, "\n") + "\n"
}

// goName matches a name in the text of a page, such as `messages.Send` or `delivery.Engine.Drain`.
var goName = regexp.MustCompile("`([a-z]+)\\.([A-Z]\\w*(?:\\.[A-Z]\\w*)?)`")

// checkGoNames checks that our names in a page exist, and that each package is named.
func checkGoNames(t *testing.T, files []source, page string) {
	t.Helper()
	names := map[string]bool{}
	var packages []string
	for _, s := range files {
		if s.test || (s.folder != "orchestrator" && path.Dir(s.folder) != "orchestrator") {
			continue
		}
		name := s.syntax.Name.Name
		if name != "main" && !slices.Contains(packages, name) {
			packages = append(packages, name)
		}
		for _, n := range declaredNames(s.syntax) {
			names[name+"."+n] = true
		}
	}
	for _, found := range goName.FindAllStringSubmatch(page, -1) {
		if slices.Contains(packages, found[1]) && !names[found[1]+"."+found[2]] {
			t.Errorf("docs/go.md names %s.%s, which does not exist", found[1], found[2])
		}
	}
	for _, name := range packages {
		if !strings.Contains(page, "`"+name+"`") && !strings.Contains(page, "`orchestrator/"+name+"`") {
			t.Errorf("docs/go.md does not say what package %s is for", name)
		}
	}
}

// declaredNames lists the declarations in a file: types with their fields and methods, functions, constants and
// variables.
func declaredNames(file *ast.File) (names []string) {
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			names = append(names, strings.TrimPrefix(receiver(d)+"."+d.Name.Name, "."))
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				names = append(names, specNames(spec)...)
			}
		}
	}
	return names
}

func specNames(spec ast.Spec) (names []string) {
	switch s := spec.(type) {
	case *ast.ValueSpec:
		for _, name := range s.Names {
			names = append(names, name.Name)
		}
	case *ast.TypeSpec:
		names = append(names, s.Name.Name)
		fields, ok := s.Type.(*ast.StructType)
		if !ok {
			return names
		}
		for _, field := range fields.Fields.List {
			for _, name := range field.Names {
				names = append(names, s.Name.Name+"."+name.Name)
			}
		}
	}
	return names
}
