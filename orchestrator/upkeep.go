package orchestrator

import "context"

// BackupTo writes a consistent copy of the database to a file, while others go on sending. An existing target is refused
// with conflict unless overwrite is set.
func (r *Router) BackupTo(ctx context.Context, file string, overwrite bool) (Backup, error) {
	s, err := able[Backuper](r.store, "backup")
	if err != nil {
		return Backup{}, err
	}
	return s.Backup(ctx, file, overwrite)
}

// Restore replaces the contents of the database by those of a backup, see Backuper. What may act outside of the database is
// decided anew.
func (r *Router) Restore(ctx context.Context, file string, force bool) (done Restored, err error) {
	s, err := able[Backuper](r.store, "restore")
	if err != nil {
		return Restored{}, err
	}
	if done, err = s.Restore(ctx, file, force); err != nil {
		return done, err
	}
	return done, r.write(ctx, func(t *tx) error {
		if err := t.configChanged(); err != nil {
			return err
		}
		conf, err := t.config()
		if err == nil {
			done.Untrusted = conf.untrusted
		}
		return err
	})
}

// Checkpoint folds the WAL into the database. Beyond the setting wal.limit, or with truncate, it also empties the file.
func (r *Router) Checkpoint(ctx context.Context, truncate bool) (Checkpointed, error) {
	conf, err := r.configuration(ctx)
	if err != nil {
		return Checkpointed{}, err
	}
	s, err := able[Shrinker](r.store, "checkpoint")
	if err != nil {
		return Checkpointed{}, err
	}
	return s.Checkpoint(truncate, conf.settings.WALLimit)
}

// Query runs one SELECT for an audit and returns at most limit rows, see Console.
func (r *Router) Query(ctx context.Context, statement string, limit int, params ...any) (Table, error) {
	s, err := able[Console](r.store, "sql")
	if err != nil {
		return Table{}, err
	}
	return s.Query(ctx, statement, limit, params...)
}

// Watch reports every table that a statement reads ("read") or writes ("write") from now on, until stop is called. It suits
// tests that run one command at a time, not production.
func (r *Router) Watch(report func(op, table string)) (stop func()) {
	s, err := able[Observer](r.store, "observer")
	if err != nil {
		return func() {}
	}
	return s.Watch(report)
}

// Ready reports whether the database can be read and written now. Errors: busy, unavailable.
func (r *Router) Ready(ctx context.Context) error { return r.store.Ready(ctx) }

// shrink gives free space back to the file system.
func (r *Router) shrink(ctx context.Context) error {
	s, err := able[Shrinker](r.store, "")
	if err != nil {
		return nil // its server does that
	}
	return s.Shrink(ctx)
}

// size is what the database takes on disk, its WAL included, and what its WAL takes, in bytes; 0 where that is not known.
func (r *Router) size() (all, log int64) {
	s, err := able[Shrinker](r.store, "")
	if err != nil {
		return 0, 0
	}
	return s.Size()
}
