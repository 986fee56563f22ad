package process

import (
	"os"
	"slices"
	"strings"
)

// maxAncestors bounds the walk to an ancestor.
const maxAncestors = 20

// Nearest returns the nearest ancestor of this process whose command line is looked for. The zero value if there is
// none, or this system does not tell.
func Nearest(is func(words []string) bool) ID {
	pid := os.Getppid()
	for range maxAncestors {
		if pid <= 1 {
			break // everybody's ancestor, and the foster parent of orphans
		}
		parent, words := lineage(pid)
		if is(words) {
			return Of(pid)
		}
		pid = parent
	}
	return ID{}
}

// Runs reports whether a command line runs a file that is looked for, as a program or as a script. What interpreters
// are told before the script, such as node's --max-old-space-size, does not count; a word after -c is no file.
func Runs(words []string, is func(file string) bool) bool {
	if len(words) == 0 {
		return false
	}
	if is(words[0]) {
		return true
	}
	script := slices.IndexFunc(words[1:], func(word string) bool { return !strings.HasPrefix(word, "--") })
	return script >= 0 && is(words[1+script])
}
