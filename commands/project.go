package commands

import (
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
)

const (
	// ProjectFolder is the folder inside a project's folder that contains the database.
	ProjectFolder = ".mailroom"
	// DatabaseName is the default name of a database file.
	DatabaseName = "mailroom.db"
)

// ProjectDatabase returns the path of a project's database. folder is the project's folder.
func ProjectDatabase(folder string) string { return filepath.Join(folder, ProjectFolder, DatabaseName) }

// ProjectName returns the name that people use for the project of a database: the name of its folder, or, for a
// database on a server, the name of the database.
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

// PlaceFile returns the path of the file in which a project names the place on another machine that has its database.
func PlaceFile(folder string) string { return filepath.Join(folder, ProjectFolder, "place") }

// NearestDatabase returns the database of the project that contains folder, an absolute path: the nearest project in
// folder or above it. It returns "" if there is none, or if the nearest project names a place on another machine.
func NearestDatabase(folder string) string {
	database, _ := NearestProject(folder)
	return database
}

// NearestProject returns the database of the nearest project in folder, an absolute path, or above it. If that
// project names a place on another machine, NearestProject returns its PlaceFile instead.
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

// NearestRepository returns the git repository that contains folder, an absolute path, or "" if there is none. It
// also reports whether the repository is a linked worktree. It does not need git.
func NearestRepository(folder string) (repository string, worktree bool) {
	repository = upward(folder, func(folder string) bool {
		_, err := os.Stat(filepath.Join(folder, ".git"))
		return err == nil
	})
	if repository == "" {
		return "", false
	}
	// .git is a file in a linked worktree and a folder in the main one.
	text, _ := os.ReadFile(filepath.Join(repository, ".git"))
	return repository, strings.Contains(filepath.ToSlash(string(text)), "/worktrees/")
}

// upward returns folder, or the nearest folder above it, for which is returns true. It returns "" if there is none.
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
