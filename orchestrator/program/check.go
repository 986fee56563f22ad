//go:build unix

package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// maxText is the maximum length of a command, in bytes.
const maxText = 4096

// checkTime is the time limit for the shell's check of a command.
const checkTime = 10 * time.Second

// Check checks a command as far as possible without running it: that the shell can parse it, and that the program
// named by its first word exists. It searches from the folder ("" is the current one) and with our own PATH. It
// does not search for a first word that only the shell can evaluate, such as "$HOME/bin/x". The error describes the
// problem and what to do.
func Check(text, folder string) error {
	switch {
	case strings.TrimSpace(text) == "":
		return errors.New("no command given: give a shell command to run")
	case text[0] == '-':
		return fmt.Errorf("the command %q must not start with -, because the shell would treat it as an option", text)
	case strings.ContainsRune(text, 0):
		return errors.New("a command must not contain NUL")
	case !utf8.ValidString(text):
		return errors.New("a command must be UTF-8")
	case len(text) > maxText:
		return fmt.Errorf("the command has %d bytes, but the limit is %d: write the command into a script, and give the path of the script", len(text),
			maxText)
	}
	if err := checkFolder(folder); err != nil {
		return err
	}
	if said, err := shell(folder, "-n", "-c", text); err != nil {
		return fmt.Errorf("the shell cannot read the command %q: %s", text, said)
	}
	word := firstWord(text)
	if rest, ok := strings.CutPrefix(word, "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return err
		}
		word = filepath.Join(home, rest)
	}
	if strings.ContainsRune(word, '/') {
		return checkFile(word, folder)
	}
	if _, err := shell(folder, "-c", `command -v "$1"`, "sh", word); word != "" && err != nil {
		return fmt.Errorf("command %s not found; install the program, or give its path", word)
	}
	return nil
}

// shell runs sh with arguments and returns its output.
func shell(folder string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), checkTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/sh", args...)
	cmd.Dir = folder
	var said Tails
	cmd.Stdout, cmd.Stderr = &said, &said
	err := cmd.Run()
	return strings.TrimSpace(said.String()), err
}

// checkFile returns an error if a path cannot be run.
func checkFile(word, folder string) error {
	path := word
	if !filepath.IsAbs(path) {
		path = filepath.Join(folder, path)
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		if absolute, err := filepath.Abs(path); err == nil {
			path = absolute
		}
		return fmt.Errorf("command %s not found: %s does not exist; relative paths start in the agent's folder",
			word, path)
	case err != nil:
		return fmt.Errorf("cannot check the command %s: %w", word, err)
	case info.IsDir():
		return fmt.Errorf("the command %s is a folder; give the path of a program", word)
	case unix.Access(path, unix.X_OK) != nil:
		return fmt.Errorf("the command %s is not executable; run chmod +x %s", word, path)
	}
	return nil
}

// firstWord returns the word of a command that names its program: the first word after assignments. It returns ""
// if only the shell can determine the program, because the word is quoted or expanded, or because the command sets
// its own PATH.
func firstWord(text string) string {
	for _, word := range strings.Fields(text) {
		if strings.ContainsAny(word, "\\\"'`$(){}[]*?!#;&|<>") || strings.HasPrefix(word, "PATH=") {
			return ""
		}
		if name, _, found := strings.Cut(word, "="); !found || !isName(name) {
			if strings.HasPrefix(word, "~") && !strings.HasPrefix(word, "~/") {
				return ""
			}
			return word
		}
	}
	return ""
}

// isName reports whether the shell takes NAME= for an assignment.
func isName(name string) bool {
	for i, c := range name {
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}
