package ledger

import "mailroom/orchestrator/store"

// takesWrites refuses to write a database that has moved to another place, or is still moving in. It is asked in each write
// transaction: a process may have had the database open for long.
func takesWrites(l *Ledger, conf *Config) error {
	if l.Moves {
		return nil
	}
	return store.Closed(l.Path(), conf.Stored)
}
