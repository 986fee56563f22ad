package commands

import (
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
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

// PlaceFile is where a project's folder names a place on another machine in which its database is.
func PlaceFile(folder string) string { return filepath.Join(folder, ProjectFolder, "place") }

// NearestDatabase returns the database of the project that a folder, an absolute path, belongs to: the nearest one in
// it or above it. It is "" if there is none, or if the nearest project names a place on another machine.
func NearestDatabase(folder string) string {
	database, _ := NearestProject(folder)
	return database
}

// NearestProject is NearestDatabase, and returns the PlaceFile of a project that has one in place of a database.
func NearestProject(folder string) (database, place string) {
	project := upward(folder, func(folder string) bool {
		if info, err := os.Stat(filepath.Join(folder, ProjectFolder)); err != nil || !info.IsDir() {
			return false
		}
		if database = ProjectDatabase(folder); isFile(database) {
			return true
		}
		database, place = "", PlaceFile(folder)
		return isFile(place)
	})
	if project == "" {
		return "", ""
	}
	return database, place
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// NearestRepository returns the git repository that a folder, an absolute path, is in, "" for none, and whether it is a
// worktree beside the repository's main one. It does not need git.
func NearestRepository(folder string) (repository string, worktree bool) {
	repository = upward(folder, func(folder string) bool {
		_, err := os.Stat(filepath.Join(folder, ".git"))
		return err == nil
	})
	if repository == "" {
		return "", false
	}
	text, _ := os.ReadFile(filepath.Join(repository, ".git")) // a file in a worktree, and a folder in the main one
	return repository, strings.Contains(filepath.ToSlash(string(text)), "/worktrees/")
}

// upward returns a folder, or the nearest one above it, for which is reports true; "" for none.
func upward(folder string, is func(folder string) bool) string {
	for !is(folder) {
		up := filepath.Dir(folder)
		if up == folder {
			return ""
		}
		folder = up
	}
	return folder
}
