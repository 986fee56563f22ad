package commands

import (
	"os"
	"path/filepath"
)

const (
	// ProjectFolder is the folder in a project's own in which its database lies.
	ProjectFolder = ".mailroom"
	// DatabaseName is that of a database's file, unless its user names another.
	DatabaseName = "mailroom.db"
)

// ProjectDatabase is where the database of a project lies, in the project's folder.
func ProjectDatabase(folder string) string { return filepath.Join(folder, ProjectFolder, DatabaseName) }

// NearestDatabase returns the database of the project that a folder, an absolute path, belongs to: the nearest one in it or above it. It
// is "" if there is none.
func NearestDatabase(folder string) string {
	for {
		path := ProjectDatabase(folder)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path
		}
		up := filepath.Dir(folder)
		if up == folder {
			return ""
		}
		folder = up
	}
}
