package ledger

import (
	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// takesWrites refuses to write a database that has moved to another place, or is still moving in. It is asked in each write
// transaction: a process may have had the database open for long.
func takesWrites(l *Ledger, conf *Config) error {
	if l.Moves {
		return nil
	}
	if to := conf.Stored[store.MovedTo]; to != "" {
		return &orchestrator.Error{Code: orchestrator.Unavailable, Err: store.ErrMoved, Message: "the database " + l.Path() + " has moved to " + to + "; nothing was written",
			Hint: "Use that one from now on, and start anew what has this one open. `mailroom migrate` moves it back, to a place of another name"}
	}
	if conf.Stored[store.MovingFrom] != "" {
		return &orchestrator.Error{Code: orchestrator.Unavailable, Err: store.ErrMoved, Message: "a database is moving to " + l.Path() + "; nothing was written",
			Hint: "If its `mailroom migrate` was interrupted, run it again. Until then the old place is the one to use"}
	}
	return nil
}

// Made reports whether a database was made or trusted here by this user, so that it may act outside of itself.
func (t *Trust) Made(id, path string) bool { return t.why(id, path) == "" }
