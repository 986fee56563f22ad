package main

import (
	_ "embed"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
)

// npmScope is the scope of the packages on npm. The name without a scope belongs to somebody else.
const npmScope = "@mailroom-router"

// launcher is a script that starts the program of the package for this system.
//
//go:embed npm/mailroom.js
var launcher []byte

// npmPackage is the content of a package.json.
type npmPackage struct {
	Name        string            `json:"name"`
	Version     string            `json:"version"`
	Description string            `json:"description"`
	License     string            `json:"license"`
	OS          []string          `json:"os,omitempty"`
	CPU         []string          `json:"cpu,omitempty"`
	Bin         map[string]string `json:"bin,omitempty"`
	Optional    map[string]string `json:"optionalDependencies,omitempty"`
	Engines     map[string]string `json:"engines,omitempty"`
}

// npmPackages returns a package with the program for each system, and a package that starts the program of whichever
// of these packages is installed with it. No package has a script that runs at installation. The program is Mailroom
// on Linux, and the client elsewhere.
//
// Only published packages depend on one another. For packages that are not given as files, npm would ask the
// registry, where somebody else may have published packages of these names.
func npmPackages(built []*program, published bool) (made []file, err error) {
	whole := npmPackage{Name: npmScope + "/mailroom", Description: "Message router for AI coding agents", License: "MIT",
		Bin: map[string]string{"mailroom": "mailroom.js"}, Optional: map[string]string{}, Engines: map[string]string{"node": ">=18"}}
	for _, p := range built {
		system, cpu := nodeSystem(p)
		name := whole.Name + "-" + system + "-" + cpu
		if _, has := whole.Optional[name]; has {
			continue // the client for a system that also has the full program
		}
		whole.Version, whole.Optional[name] = p.version, p.version
		program, err := os.ReadFile(p.path)
		if err != nil {
			return nil, err
		}
		about := npmPackage{Name: name, Version: p.version, Description: whole.Description + ": the program for " + system + " on " + cpu,
			License: "MIT", OS: []string{system}, CPU: []string{cpu}}
		f, err := p.npm("mailroom-npm_"+p.version+"_"+system+"-"+cpu+".tgz", about, file{"bin/" + filepath.Base(p.path), 0o755, program})
		if err != nil {
			return nil, err
		}
		made = append(made, f)
	}
	if !published {
		whole.Optional = nil
	}
	f, err := built[0].npm("mailroom-npm_"+whole.Version+".tgz", whole, file{"mailroom.js", 0o755, launcher})
	return append(made, f), err
}

// nodeSystem returns Node.js's names for the system and the architecture of a program.
func nodeSystem(p *program) (system, cpu string) {
	system, cpu = p.system, p.arch
	if system == "windows" {
		system = "win32"
	}
	return system, strings.Replace(cpu, "amd64", "x64", 1)
}

// npm returns an npm package.
func (p *program) npm(name string, about npmPackage, content file) (file, error) {
	text, err := json.MarshalIndent(about, "", "  ")
	if err != nil {
		return file{}, err
	}
	data, err := archive("package", p.at, []file{{"package.json", 0o644, append(text, '\n')}, content, {"COPYRIGHT", 0o644, p.licences}})
	return file{path: name, data: data}, err
}
