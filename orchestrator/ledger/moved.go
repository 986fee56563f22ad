package ledger

import (
	"context"

	"mailroom/orchestrator/store"
)

// TakesWrites returns an error, as of store.Closed, if the database has moved to another place, or is still moving in.
func TakesWrites(ctx context.Context, l *Ledger) error {
	conf, err := l.Configuration(ctx)
	if err == nil {
		err = takesWrites(l, conf)
	}
	return err
}

// takesWrites is TakesWrites within a write transaction, each of which asks: a process may have had the database open
// for long.
func takesWrites(l *Ledger, conf *Config) error {
	if l.Moves {
		return nil
	}
	return store.Closed(l.Path(), conf.Stored)
}
