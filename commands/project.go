package commands

import (
	"net/url"
	"os"
	"path"
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

// ProjectName is what people call the project of a database: the name of its folder, or on a server that of the
// database.
func ProjectName(database string) string {
	if at, err := url.Parse(database); err == nil && at.Host != "" {
		return path.Base(at.Path)
	}
	folder := filepath.Dir(database)
	if filepath.Base(folder) == ProjectFolder {
		folder = filepath.Dir(folder)
	}
	return filepath.Base(folder)
}

// NearestDatabase returns the database of the project that a folder, an absolute path, belongs to: the nearest one in
// it or above it. It is "" if there is none.
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
