package ledger

import (
	"context"
	"strings"
	"sync"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// BackupTo writes a consistent copy of the database to a file. Sending continues meanwhile. Error: conflict if the
// file exists and overwrite is false.
func (l *Ledger) BackupTo(ctx context.Context, file string, overwrite bool) (store.Backup, error) {
	s, err := store.Able[store.Backuper](l.Store, "backup")
	if err != nil {
		return store.Backup{}, err
	}
	return s.Backup(ctx, file, overwrite)
}

// Restore replaces the contents of the database with those of a backup; see store.Backuper. The trust in the database
// is determined again; Untrusted in the result is the reason if it is not trusted.
func (l *Ledger) Restore(ctx context.Context, file string, force bool) (done store.Restored, err error) {
	s, err := store.Able[store.Backuper](l.Store, "restore")
	if err != nil {
		return store.Restored{}, err
	}
	parts := store.InBackup{Outside: outside(l)}
	for _, p := range l.Parts {
		parts.Outdated = append(parts.Outdated, p.Outdated...)
	}
	if done, err = s.Restore(ctx, file, force, parts); err != nil {
		return done, err
	}
	return done, done.NamePrevious(l.Write(ctx, store.Alone, func(t *Tx) error {
		if err := t.ConfigChanged(); err != nil {
			return err
		}
		done.Untrusted = t.Config().Untrusted
		return nil
	}))
}

// CompareBackup describes what a restore of a backup would add and remove. It changes nothing.
func CompareBackup(ctx context.Context, l *Ledger, file string) (store.Compared, error) {
	s, err := store.Able[store.Backuper](l.Store, "restore")
	if err != nil {
		return store.Compared{}, err
	}
	return s.Compare(ctx, file, outside(l))
}

// outside returns the queries that list what the database does outside of itself.
func outside(l *Ledger) []string {
	var local []string
	for i := range settingList {
		if settingList[i].Local {
			local = append(local, "'"+settingList[i].Key+"'")
		}
	}
	list := []string{`SELECT 'setting ' || key || ': ' || value FROM settings WHERE key IN (` +
		strings.Join(local, ", ") + `) ORDER BY key`,
		`SELECT 'schedule ' || name || ' (' || spec || ') runs ' || command || CASE params WHEN '{}' THEN '' ELSE ' ' || params END FROM schedules WHERE enabled <> 0 ORDER BY name`}
	for _, p := range l.Parts {
		if p.Outside != "" {
			list = append(list, p.Outside)
		}
	}
	return list
}

// Checkpoint copies the write-ahead log into the database file. If the log is larger than the setting wal.limit, or
// truncate is true, it also empties the log file. It does nothing for a database on a server.
func (l *Ledger) Checkpoint(ctx context.Context, truncate bool) (store.Checkpointed, error) {
	conf, err := l.Configuration(ctx)
	if err != nil {
		return store.Checkpointed{}, err
	}
	s, ok := l.Store.(store.Shrinker)
	if !ok {
		return store.Checkpointed{Complete: true}, nil
	}
	return s.Checkpoint(truncate, conf.Settings.walLimit)
}

// maxQueries is the maximum number of concurrent audit queries. Each may use memory for its whole result, and a
// connection of a server.
const maxQueries = 4

// EnterQuery reserves one of the few places for audit queries of this process until leave is called. leave may be
// called more than once. Error: busy if no place is free.
func (l *Ledger) EnterQuery() (leave func(), err error) {
	if l.queries.Add(1) > maxQueries {
		l.queries.Add(-1)
		return nil, orchestrator.Errorf(orchestrator.Busy, "%d queries are running, which is the limit",
			maxQueries).
			WithHint("Try again when one of the queries has finished. A query runs for at most one minute")
	}
	return sync.OnceFunc(func() { l.queries.Add(-1) }), nil
}

// Query runs one SELECT and returns at most as many rows as bound allows. It is for audits; see store.Console.
func (l *Ledger) Query(ctx context.Context, statement string, bound store.Bound, params ...any) (store.Table, error) {
	s, err := store.Able[store.Console](l.Store, "sql")
	if err != nil {
		return store.Table{}, err
	}
	return s.Query(ctx, statement, bound, params...)
}

// Watch reports every table that a statement reads ("read") or writes ("write") from now on, until stop is called. It
// is meant for tests that run one command at a time, not for production.
func (l *Ledger) Watch(report func(op, table string)) (stop func()) {
	s, ok := l.Store.(store.Observer)
	if !ok {
		return func() {}
	}
	return s.Watch(report)
}

// Ready reports whether the database can be read and written now. Errors: busy, unavailable.
func (l *Ledger) Ready(ctx context.Context) error { return l.Store.Ready(ctx) }

// Shrink returns the database's free space to the file system.
func (l *Ledger) Shrink(ctx context.Context) error {
	s, ok := l.Store.(store.Shrinker)
	if !ok {
		return nil // the server does that
	}
	return s.Shrink(ctx)
}

// Size returns the number of bytes that the database uses on disk, and the part of them used by its write-ahead log.
// Both are 0 if unknown.
func (l *Ledger) Size() (all, log int64) { return l.Store.Size() }
