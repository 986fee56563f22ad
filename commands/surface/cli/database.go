package cli

import (
	"os"
	"path/filepath"

	"mailroom/commands"
	"mailroom/orchestrator"
)

// databasePath finds the database: --db, MAILROOM_DB, the nearest .mailroom/mailroom.db upwards from here, or the one in
// the user's state folder. Source: contract, "Where the database is".
func (p *Program) databasePath(flag string) (string, error) {
	if flag != "" {
		return flag, nil
	}
	if path := p.Getenv("MAILROOM_DB"); path != "" {
		return path, nil
	}
	if here, err := os.Getwd(); err == nil {
		if path := commands.NearestDatabase(here); path != "" {
			return path, nil
		}
	}
	folder := StateFolder(p.Getenv)
	if folder == "" {
		return "", orchestrator.Errorf(orchestrator.Unavailable, "no place for the database is known: HOME and XDG_STATE_HOME are not set").
			WithHint("Name a file with --db or in MAILROOM_DB")
	}
	return filepath.Join(folder, commands.DatabaseName), nil
}

// StateFolder is where the program keeps what is the user's own; "" when the environment names no place for it.
func StateFolder(getenv func(string) string) string {
	state := getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(state) {
		home := getenv("HOME")
		if home == "" {
			return ""
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "mailroom")
}
