package cli

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"

	"mailroom/commands"
	"mailroom/orchestrator"
)

// databasePath returns the database to use: --db, MAILROOM_DB, the nearest .mailroom/mailroom.db or .mailroom/place
// in this folder or above, or the database in the user's state folder. It may be a place on another machine. Source:
// contract, "Where the database is".
func (p *Program) databasePath(flag string) (string, error) {
	if flag != "" && p.there == nil { // in a remote session, the flag names the place
		return flag, nil
	}
	if path := p.Getenv("MAILROOM_DB"); path != "" {
		return path, nil
	}
	project := p.nearest()
	if project.err != nil {
		return "", folderGone(project.err)
	}
	if place, err := p.elsewhere(flag); place != "" || err != nil {
		return place, err
	}
	if project.database != "" {
		return project.database, nil
	}
	folder := StateFolder(p.Getenv)
	if folder == "" {
		return "", orchestrator.Errorf(orchestrator.Unavailable,
			"cannot choose a database: neither HOME nor XDG_STATE_HOME is set").
			WithHint("Give a database with --db or MAILROOM_DB")
	}
	return filepath.Join(folder, commands.DatabaseName), nil
}

// named reports whether only --db makes a command in any folder find the open database.
func named(env commands.Env, getenv func(string) string) bool {
	return env.Ledger.Path() != filepath.Join(StateFolder(getenv), commands.DatabaseName)
}

// folderGone returns the error for a working folder that no longer exists.
func folderGone(err error) error {
	return &orchestrator.Error{
		Code:    orchestrator.Unavailable,
		Message: "cannot find the current folder, which determines the database", Err: err,
		Hint: "Change to a folder that exists, or give a database with --db",
	}
}

// checkPlace refuses a path that cannot be meant literally: a relative path in a folder that no longer exists, and a
// path with a ~ that no shell has expanded, as in quotes, in an env file or after --db=.
func checkPlace(path string) error {
	if filepath.IsAbs(path) {
		return nil
	}
	if _, err := os.Getwd(); err != nil {
		return folderGone(err)
	}
	if strings.HasPrefix(path, "~/") {
		return orchestrator.Errorf(orchestrator.InvalidParams,
			"the database path %s begins with ~, which the shell did not expand", path).
			WithHint("Write $HOME%s, or remove the quotes. If the folder is really named ~, write ./%s", path[1:], path)
	}
	return nil
}

// StateFolder returns the folder for the user's own files of the program, or "" if the environment defines none.
func StateFolder(getenv func(string) string) string {
	state := getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) {
		home := cmp.Or(getenv("HOME"), getenv("USERPROFILE")) // USERPROFILE is for Windows
		if home == "" {
			return ""
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "mailroom")
}
