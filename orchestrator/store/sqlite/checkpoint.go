package sqlite

import (
	"context"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// vacuumStep is how many free pages go back to the file system in one transaction.
const vacuumStep = 500

// Shrink gives free pages back to the file system in small steps, then folds the WAL into the database.
func (s *Store) Shrink(ctx context.Context) error {
	for {
		var free int64
		err := s.write(ctx, func(t *store.Transaction) (err error) {
			// Stepped to the end as a query: run as a statement, the driver frees a single page.
			if err = t.Query("PRAGMA incremental_vacuum(500)", func(store.Row) error { return nil }); err != nil {
				return err
			}
			free, err = t.Number("PRAGMA freelist_count")
			return err
		})
		if err != nil {
			return err
		}
		if free < vacuumStep {
			break
		}
		if orchestrator.Pause(ctx, orchestrator.ClearPause); ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	_, err := s.checkpoint("TRUNCATE")
	return err
}

// Checkpoint folds the WAL into the database. When it is larger than limit, in bytes, or with truncate, it also empties
// the file; SQLite does the rest by itself every thousand pages. It never waits for others, so that no sender waits for
// it.
func (s *Store) Checkpoint(truncate bool, limit int64) (done store.Checkpointed, err error) {
	done.WALBefore = s.logSize()
	mode := "PASSIVE"
	if truncate || done.WALBefore > limit {
		mode = "TRUNCATE"
	}
	done.Complete, err = s.checkpoint(mode)
	done.WALAfter = s.logSize()
	return done, err
}

// checkpoint runs on a connection of its own with no busy timeout: one open cursor elsewhere and a patient checkpoint
// would stall every sender.
func (s *Store) checkpoint(mode string) (complete bool, err error) {
	c, err := openConn(fileURI(s.path, map[string][]string{"mode": {"rw"}, "_busy_timeout": {"0"}, "_sync": {"FULL"},
		"_mutex": {"no"}}))
	if err != nil {
		return false, databaseError(s.path, err)
	}
	defer c.close()
	err = c.Query("PRAGMA wal_checkpoint("+mode+")", func(row store.Row) error {
		complete = row.Int(0) == 0 && row.Int(1) == row.Int(2)
		return nil
	})
	if isBusy(err) {
		return false, nil
	}
	return complete, databaseError(s.path, err)
}
