package process

import (
	"os"
	"path/filepath"
	"slices"
)

// maxAncestors bounds the walk to an ancestor.
const maxAncestors = 20

// Ancestor returns the nearest ancestor of this process that runs one of these programs, by the name of its file or, for a script,
// by the name of that. The zero value if there is none, or this system does not tell.
func Ancestor(programs []string) ID {
	pid := os.Getppid()
	for range maxAncestors {
		if pid <= 1 {
			break // everybody's ancestor, and the foster parent of orphans
		}
		parent, words := lineage(pid)
		for _, word := range words[:min(2, len(words))] {
			if slices.Contains(programs, filepath.Base(word)) {
				return Of(pid)
			}
		}
		pid = parent
	}
	return ID{}
}
