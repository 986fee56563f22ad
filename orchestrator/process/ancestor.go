package process

import (
	"os"
	"slices"
	"strings"
)

// maxAncestors is the maximum number of ancestors that Nearest checks.
const maxAncestors = 20

// Nearest returns the nearest ancestor of this process whose command line satisfies the function is. It returns the
// zero value if there is none, or if this system does not show ancestors.
func Nearest(is func(words []string) bool) ID {
	pid := os.Getppid()
	for range maxAncestors {
		if pid <= 1 {
			break // the ancestor of all processes, which also adopts orphans
		}
		parent, words := lineage(pid)
		if is(words) {
			return Of(pid)
		}
		pid = parent
	}
	return ID{}
}

// Runs reports whether a command line runs a file that satisfies the function is, as a program or as a script. It
// skips an interpreter's options before the script, such as node's --max-old-space-size. A word after -c is not a
// file.
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
