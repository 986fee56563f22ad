//go:build !linux && unix

package program

import (
	"errors"
	"os"
)

// inMemory returns errors.ErrUnsupported on this system.
func inMemory() (*os.File, error) { return nil, errors.ErrUnsupported }
