//go:build !linux && unix

package program

import (
	"errors"
	"os"
)

// inMemory is nothing that this system has.
func inMemory() (*os.File, error) { return nil, errors.ErrUnsupported }
