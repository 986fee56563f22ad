package commands

import (
	"os"
	"os/exec"
	"path/filepath"
)

// PathOf returns the absolute path of a program found through PATH, or "" if there is none.
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

// OwnPath returns the path of this program, for files that start it later. If PATH leads to this program, OwnPath
// returns the path found there: a link in PATH remains when a new version replaces the program.
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
