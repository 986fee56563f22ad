//go:build !linux

package program

import "os"

// anonymousFile is a file without a name.
func anonymousFile() (*os.File, error) {
	file, err := os.CreateTemp("", "mailroom-input-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(file.Name()); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}
