package sqlite

import (
	"context"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// vacuumStep is the number of free pages that one transaction returns to the file system.
const vacuumStep = 500

// Shrink returns free pages to the file system in small steps, and then folds the WAL into the database.
func (s *Store) Shrink(ctx context.Context) error {
	for {
		var free int64
		err := s.write(ctx, func(t *store.Transaction) (err error) {
			// A query runs the statement to its end; with Exec the driver would free only one page.
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

// Checkpoint folds the WAL into the database. If truncate is set, or the WAL is larger than limit bytes, it also
// empties the WAL file. SQLite folds the rest by itself every thousand pages. Checkpoint never waits for others, so
// no sender waits for it.
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

// checkpoint runs on a separate connection without a busy timeout. With an open cursor elsewhere, a checkpoint that
// waits would stop every sender.
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
