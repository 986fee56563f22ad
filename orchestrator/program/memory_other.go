//go:build !linux && unix

package program

import (
	"errors"
	"os"
)

// inMemory returns an error: this system has no files that exist only in memory.
func inMemory() (*os.File, error) { return nil, errors.ErrUnsupported }
