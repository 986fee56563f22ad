package commands

import (
	"os"
	"os/exec"
	"path/filepath"
)

// PathOf returns where PATH leads to a program; "" is nowhere.
func PathOf(program string) string {
	path, err := exec.LookPath(program)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return ""
	}
	return path
}

// OwnPath returns where this program lies, for files that are to start it later. If PATH leads to the program, the path
// is the one there: a link in PATH stays when a new version replaces the program.
func OwnPath() (string, error) {
	program, err := os.Executable()
	if err == nil {
		program, err = filepath.EvalSymlinks(program)
	}
	if path := PathOf(filepath.Base(os.Args[0])); err == nil && path != "" {
		if real, err := filepath.EvalSymlinks(path); err == nil && real == program {
			return path, nil
		}
	}
	return program, err
}
