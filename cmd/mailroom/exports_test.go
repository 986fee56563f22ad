package main

import (
	"go/ast"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// standard are methods that third-party packages call.
var standard = []string{"Error", "Unwrap", "Is", "As", "String", "MarshalJSON", "UnmarshalJSON", "Close", "Read",
	"Write"}

// naming holds the names from other packages that the files of a package use.
type naming struct {
	qualified map[string]bool // "folder Name": the name after an imported package
	members   map[string]bool // fields and methods of any type
}

// TestWhatIsExportedIsUsed checks that only names used by other packages are exported, so that a reader of a package
// sees immediately what it is for. The check uses names and not types: a method counts as used if any method with its
// name is.
func TestWhatIsExportedIsUsed(t *testing.T) {
	t.Parallel()
	all := sources(t)
	named := map[string]*naming{}
	for _, s := range all {
		of := s.folder + " " + s.syntax.Name.Name // tests may be a separate package
		if named[of] == nil {
			named[of] = &naming{map[string]bool{}, map[string]bool{}}
		}
		named[of].note(s)
	}
	for _, s := range all {
		if s.test || !isEngine(s.folder) {
			continue
		}
		signatures := s.signatures(all)
		for _, e := range s.exports() {
			used := !e.member && signatures[e.name] || e.member && slices.Contains(standard, e.name)
			for of, n := range named {
				used = used || of != s.folder+" "+s.syntax.Name.Name && n.names(s.folder, e)
			}
			if !used {
				t.Errorf("%s: %s is exported, but nothing outside of the package names it",
					s.files.Position(e.at.Pos()), e.full)
			}
		}
	}
}

func (n *naming) names(folder string, e export) bool {
	return e.member && n.members[e.name] || !e.member && n.qualified[folder+" "+e.name]
}

// note adds the names that a file uses.
func (n *naming) note(s source) {
	imports := s.imports()
	ast.Inspect(s.syntax, func(node ast.Node) bool {
		switch of := node.(type) {
		case *ast.SelectorExpr:
			n.members[of.Sel.Name] = true
			if x, ok := of.X.(*ast.Ident); ok {
				n.qualified[imports[x.Name]+" "+of.Sel.Name] = true
			}
		case *ast.KeyValueExpr: // a field, in a literal
			if key, ok := of.Key.(*ast.Ident); ok {
				n.members[key.Name] = true
			}
		case *ast.FuncDecl: // a method, perhaps for an interface of another package
			n.members[of.Name.Name] = n.members[of.Name.Name] || of.Recv != nil
		case *ast.InterfaceType:
			for _, method := range of.Methods.List {
				for _, name := range method.Names {
					n.members[name.Name] = true
				}
			}
		}
		return true
	})
}

// imports returns the folder of each of our packages that the file imports, by its name in the file.
func (s source) imports() map[string]string {
	folders := map[string]string{}
	for _, spec := range s.syntax.Imports {
		name, _ := strconv.Unquote(spec.Path.Value)
		if folder, ours := strings.CutPrefix(name, "mailroom/"); ours {
			as := path.Base(folder)
			if spec.Name != nil {
				as = spec.Name.Name
			}
			folders[as] = folder
		}
	}
	return folders
}

// export is a name that a file exports.
type export struct {
	name, full string
	member     bool // a field or a method
	at         ast.Node
}

// exports lists the names that the file exports. Fields written as JSON are used through their tags.
func (s source) exports() (list []export) {
	add := func(of string, id *ast.Ident) {
		if id.IsExported() && of == "" {
			list = append(list, export{name: id.Name, full: id.Name, at: id})
		} else if id.IsExported() && ast.IsExported(of) {
			list = append(list, export{name: id.Name, full: of + "." + id.Name, member: true, at: id})
		}
	}
	for _, decl := range s.syntax.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			add(receiver(d), d.Name)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch of := spec.(type) {
				case *ast.ValueSpec:
					for _, name := range of.Names {
						add("", name)
					}
				case *ast.TypeSpec:
					add("", of.Name)
					for _, member := range members(of) {
						add(of.Name.Name, member)
					}
				}
			}
		}
	}
	return list
}

// members lists the fields or methods that a type declares.
func members(of *ast.TypeSpec) (names []*ast.Ident) {
	var list *ast.FieldList
	switch is := of.Type.(type) {
	case *ast.StructType:
		list = is.Fields
	case *ast.InterfaceType:
		list = is.Methods
	default:
		return nil
	}
	for _, field := range list.List {
		if field.Tag != nil {
			tag, _ := strconv.Unquote(field.Tag.Value)
			if _, json := reflect.StructTag(tag).Lookup("json"); json {
				continue
			}
		}
		names = append(names, field.Names...)
	}
	return names
}

// signatures lists the names in the exported declarations of a file's package. Other packages may hold values of such
// types without naming them.
func (s source) signatures(all []source) map[string]bool {
	names := map[string]bool{}
	note := func(n ast.Node) {
		ast.Inspect(n, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				names[id.Name] = true
			}
			return true
		})
	}
	for _, other := range all {
		if other.folder != s.folder || other.test {
			continue
		}
		for _, decl := range other.syntax.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() {
					note(d.Type)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch of := spec.(type) {
					case *ast.TypeSpec:
						if of.Name.IsExported() {
							note(of.Type)
						}
					case *ast.ValueSpec:
						if of.Type != nil && of.Names[0].IsExported() {
							note(of.Type)
						}
					}
				}
			}
		}
	}
	return names
}

// isEngine reports whether a folder contains a package of the engine, other than its basic types and test packages.
func isEngine(folder string) bool {
	return strings.HasPrefix(folder, "orchestrator/") && !strings.HasPrefix(folder, "orchestrator/orchestratortest") &&
		!strings.HasSuffix(folder, "test")
}
