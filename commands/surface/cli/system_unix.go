//go:build unix

package cli

import (
	"errors"
	"os"
	"syscall"

	"mailroom/orchestrator"
)

// become replaces this process by a program. It returns only on failure.
func become(program string, args []string) error {
	err := syscall.Exec(program, args, os.Environ())
	return orchestrator.Errorf(orchestrator.Unavailable, "cannot start %s: %v", program, err)
}

// isClosedPipe reports whether a write failed because the reader has gone.
func isClosedPipe(err error) bool { return errors.Is(err, syscall.EPIPE) }
