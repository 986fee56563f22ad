package ledger

import (
	"context"

	"mailroom/orchestrator/store"
)

// TakesWrites returns an error, as from store.Closed, if the database has moved to another place or if a move into it
// is not finished.
func TakesWrites(ctx context.Context, l *Ledger) error {
	conf, err := l.Configuration(ctx)
	if err == nil {
		err = takesWrites(l, conf)
	}
	return err
}

// takesWrites makes the check of TakesWrites with a given configuration. Each write transaction makes this check,
// because a process may have had the database open for a long time.
func takesWrites(l *Ledger, conf *Config) error {
	if l.Moves {
		return nil
	}
	return store.Closed(l.Path(), conf.Stored)
}
