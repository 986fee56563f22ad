package orchestrator

import (
	"context"
	"os"

	"mailroom/orchestrator/store"
)

// vacuumStep is how many free pages go back to the file system in one transaction.
const vacuumStep = 500

// shrink gives free pages back to the file system in small steps, then folds the WAL into the database.
func (r *Router) shrink(ctx context.Context) error {
	for {
		var free int64
		err := r.write(ctx, func(t *tx) (err error) {
			// Stepped to the end as a query: run as a statement, the driver frees a single page.
			if err = t.query("PRAGMA incremental_vacuum(500)", func(store.Row) error { return nil }); err != nil {
				return err
			}
			free, err = t.number("PRAGMA freelist_count")
			return err
		})
		if err != nil {
			return err
		}
		if free < vacuumStep {
			break
		}
		if pause(ctx, clearPause); ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	_, err := r.checkpoint("TRUNCATE")
	return err
}

// Checkpointed is what a checkpoint did.
type Checkpointed struct {
	WALBefore int64 // bytes
	WALAfter  int64
	Complete  bool // false: readers or writers were in the way; the next one goes on
}

// Checkpoint folds the WAL into the database. Beyond the setting wal.limit, or with truncate, it also empties the file;
// SQLite does the rest by itself every thousand pages. It never waits for others, so that no sender waits for it.
func (r *Router) Checkpoint(ctx context.Context, truncate bool) (Checkpointed, error) {
	conf, err := r.configuration(ctx)
	if err != nil {
		return Checkpointed{}, err
	}
	done := Checkpointed{WALBefore: r.walSize()}
	mode := "PASSIVE"
	if truncate || done.WALBefore > conf.settings.WALLimit {
		mode = "TRUNCATE"
	}
	done.Complete, err = r.checkpoint(mode)
	done.WALAfter = r.walSize()
	return done, err
}

func (r *Router) walSize() int64 {
	info, err := os.Stat(r.path + "-wal")
	if err != nil {
		return 0
	}
	return info.Size()
}

// checkpoint runs on a connection of its own with no busy timeout: one open cursor elsewhere and a patient checkpoint
// would stall every sender.
func (r *Router) checkpoint(mode string) (complete bool, err error) {
	c, err := openConn(fileURI(r.path, map[string][]string{"mode": {"rw"}, "_busy_timeout": {"0"}, "_sync": {"FULL"}, "_mutex": {"no"}}))
	if err != nil {
		return false, databaseError(r.path, err)
	}
	defer c.close()
	err = c.query("PRAGMA wal_checkpoint("+mode+")", func(row store.Row) error {
		complete = row.Int(0) == 0 && row.Int(1) == row.Int(2)
		return nil
	})
	if isBusy(err) {
		return false, nil
	}
	return complete, databaseError(r.path, err)
}
