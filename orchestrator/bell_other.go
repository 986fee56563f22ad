//go:build !linux

package orchestrator

import (
	"os"
	"path/filepath"
)

// socketPath names a socket. A path too long for a socket's address gives an error on use, and the listener polls.
func socketPath(dir *os.File, name string) string { return filepath.Join(dir.Name(), name) }
