package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/store/sqlite/copies"
	"mailroom/orchestrator/store/sqlite/tables"
	"mailroom/tracing"
)

// Backup writes a consistent copy of the database to a file while others go on sending. It takes one read snapshot,
// writes a file with mode 0600 in a temporary folder beside the target, syncs the file and renames it. If the target
// exists, Backup fails with conflict unless overwrite is set. It first removes what killed backups left in the
// folder.
func (s *Store) Backup(ctx context.Context, file string, overwrite bool) (store.Backup, error) {
	target, err := filepath.Abs(file)
	if err != nil {
		return store.Backup{}, err
	}
	if info, err := os.Stat(target); err == nil && !overwrite {
		if os.SameFile(info, mustStat(s.path)) {
			return store.Backup{}, orchestrator.Errorf(orchestrator.InvalidParams, "%s is the database itself", target)
		}
		return store.Backup{}, orchestrator.Errorf(orchestrator.Conflict, "%s already exists", target).
			WithHint("Specify another file, or use --overwrite to replace this file")
	}
	if err := admit(ctx, s); err != nil {
		return store.Backup{}, err
	}
	if info, err := os.Stat(target); err == nil && os.SameFile(info, mustStat(s.path)) {
		return store.Backup{}, orchestrator.Errorf(orchestrator.InvalidParams, "%s is the database itself", target)
	}
	if span := tracing.FromContext(ctx); span != nil {
		span.Set(tracing.AttrDirectory, filepath.Dir(target)) // where the doctor looks for remains of backups
	}
	temp, place, err := s.openCopy(filepath.Dir(target), "backup")
	if err != nil {
		return store.Backup{}, fileError("cannot write the backup", err)
	}
	defer place.Remove()
	if err := vacuumInto(temp, s.path, readerDSN(s.path, false), "cannot write the backup"); err != nil {
		return store.Backup{}, err
	}
	b := store.Backup{File: target}
	if b.Messages, err = checkBackup(temp.Name()); err != nil {
		return store.Backup{}, err
	}
	if err := os.Rename(temp.Name(), target); err != nil {
		return store.Backup{}, fileError("cannot move the backup to its final path", err)
	}
	if err := store.SyncFolder(filepath.Dir(target)); err != nil {
		return store.Backup{}, err
	}
	info, err := os.Stat(target)
	if err == nil {
		b.Bytes = info.Size()
	}
	return b, err
}

// openCopy opens an empty file for a copy of the database in a folder of its own. It removes what killed processes
// left, both in that place and beside the database.
func (s *Store) openCopy(folder, purpose string) (*os.File, *copies.Folder, error) {
	copies.Sweep(s.log, filepath.Dir(s.path))
	if folder != filepath.Dir(s.path) {
		copies.Sweep(s.log, folder)
	}
	place, err := copies.NewFolder(folder, purpose)
	if err != nil {
		return nil, nil, err
	}
	file, err := place.Create()
	if err != nil {
		place.Remove()
	}
	return file, place, err
}

func mustStat(path string) os.FileInfo {
	info, _ := os.Stat(path)
	return info
}

func fileError(what string, err error) error {
	code, hint := orchestrator.Unavailable, "Check the path, its permissions, and the free space on the disk"
	if errors.Is(err, fs.ErrNotExist) {
		code, hint = orchestrator.InvalidParams, "The folder does not exist. Create it first"
	}
	return &orchestrator.Error{Code: code, Message: what, Err: err, Hint: hint}
}

// vacuumInto copies a database into an empty file that is already open, and syncs the file. failure is the message
// if the file cannot be written.
func vacuumInto(temp *os.File, path, dsn, failure string) error {
	c, err := openConn(dsn)
	if err != nil {
		temp.Close()
		return databaseError(path, err)
	}
	defer c.close()
	// VACUUM INTO counts as a write for query_only, although it changes nothing here.
	if err := c.Script("PRAGMA query_only = OFF"); err != nil {
		temp.Close()
		return databaseError(path, err)
	}
	if _, err := c.Exec("VACUUM INTO ?", temp.Name()); err != nil {
		temp.Close()
		if isDamaged(err) {
			return databaseError(path, err)
		}
		return fileError(failure, err)
	}
	return errors.Join(temp.Sync(), temp.Close())
}

// checkBackup opens a copy, checks that it is an undamaged Mailroom database, and counts its messages.
func checkBackup(path string) (messages int64, err error) {
	c, err := openConn(readerDSN(path, true))
	if err != nil {
		return 0, backupError(path, err)
	}
	defer c.close()
	return checkCopy(c, path)
}

// checkCopy checks that a copy is an undamaged Mailroom database, and counts its messages. named is its name in
// errors.
func checkCopy(c *conn, named string) (messages int64, err error) {
	version, err := tables.CheckVersion(c.Conn)
	if err != nil {
		return 0, backupError(named, err)
	}
	if version == 0 {
		return 0, noBackup(named)
	}
	problem, _, err := c.Text(`PRAGMA integrity_check(1)`)
	if err != nil {
		return 0, databaseError(named, err)
	}
	if problem != "ok" {
		return 0, orchestrator.Errorf(orchestrator.Unavailable, "%s is damaged: %s", named, problem).
			WithHint("Use an older backup")
	}
	messages, err = c.Number(copies.CountMessages)
	return messages, databaseError(named, err)
}

// backupError returns the error for a file that was given as a backup but may not be one.
func backupError(path string, err error) error {
	if isNoDatabase(err) || errors.Is(err, tables.ErrForeign) {
		return noBackup(path)
	}
	return databaseError(path, err)
}

func noBackup(path string) error {
	return orchestrator.Errorf(orchestrator.InvalidParams, "%s is not a backup of a Mailroom database", path).
		WithHint("Specify a file that `mailroom backup` created")
}
