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

// NearestDatabase returns the database of the project that a folder, an absolute path, belongs to: the nearest one in
// it or above it. It is "" if there is none.
func NearestDatabase(folder string) string {
	project := upward(folder, func(folder string) bool {
		info, err := os.Stat(ProjectDatabase(folder))
		return err == nil && info.Mode().IsRegular()
	})
	if project == "" {
		return ""
	}
	return ProjectDatabase(project)
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
