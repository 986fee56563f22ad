package program

import (
	"os"
	"path/filepath"
	"strconv"
)

// Holds reports whether a process has the slot open, as a command that runs with it does: then its number is still that
// of the command.
func Holds(pid int, folder, name string) bool {
	slot, err := os.Stat(filepath.Join(folder, name))
	if err != nil {
		return false
	}
	open := filepath.Join("/proc", strconv.Itoa(pid), "fd")
	entries, err := os.ReadDir(open)
	if err != nil {
		return false
	}
	for _, entry := range entries {
		if info, err := os.Stat(filepath.Join(open, entry.Name())); err == nil && os.SameFile(info, slot) {
			return true
		}
	}
	return false
}
