package orchestrator

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cenkalti/backoff/v4"
	sqlite3 "github.com/mattn/go-sqlite3"
)

// Backup is a copy of the database in one file.
type Backup struct {
	File     string
	Bytes    int64
	Messages int64 // rows of agent_message in it
}

// BackupTo writes a consistent copy of the database to a file, while others go on sending: one read snapshot, a temporary
// file beside the target that is made with mode 0600, synced, and renamed. An existing target is refused with conflict
// unless overwrite is set.
func (r *Router) BackupTo(ctx context.Context, file string, overwrite bool) (Backup, error) {
	target, err := filepath.Abs(file)
	if err != nil {
		return Backup{}, err
	}
	if info, err := os.Stat(target); err == nil && !overwrite {
		if os.SameFile(info, mustStat(r.path)) {
			return Backup{}, Errorf(InvalidParams, "%s is the database itself", target)
		}
		return Backup{}, Errorf(Conflict, "%s exists already", target).WithHint("Name another file, or replace it with --overwrite")
	}
	if err := r.read(func(*conn) error { return nil }); err != nil {
		return Backup{}, err
	}
	if info, err := os.Stat(target); err == nil && os.SameFile(info, mustStat(r.path)) {
		return Backup{}, Errorf(InvalidParams, "%s is the database itself", target)
	}
	temp, err := os.CreateTemp(filepath.Dir(target), ".mailroom-backup-*") // mode 0600
	if err != nil {
		return Backup{}, fileError("the backup cannot be written", err)
	}
	defer os.Remove(temp.Name()) // fails once it is renamed
	if err := r.vacuumInto(temp); err != nil {
		return Backup{}, err
	}
	b := Backup{File: target}
	if b.Messages, err = checkBackup(temp.Name()); err != nil {
		return Backup{}, err
	}
	if err := os.Rename(temp.Name(), target); err != nil {
		return Backup{}, fileError("the backup cannot be put in its place", err)
	}
	if err := syncFolder(filepath.Dir(target)); err != nil {
		return Backup{}, err
	}
	info, err := os.Stat(target)
	if err == nil {
		b.Bytes = info.Size()
	}
	return b, err
}

func mustStat(path string) os.FileInfo {
	info, _ := os.Stat(path)
	return info
}

func fileError(what string, err error) error {
	hint := "Check the path, its permissions and the space on the disk"
	if errors.Is(err, fs.ErrNotExist) {
		hint = "Its folder does not exist; make it first"
	}
	return &Error{Code: Unavailable, Message: what, Err: err, Hint: hint}
}

// vacuumInto copies the database into an empty file that is open already, and syncs it.
func (r *Router) vacuumInto(temp *os.File) error {
	c, err := openConn(readerDSN(r.path, false))
	if err != nil {
		temp.Close()
		return databaseError(r.path, err)
	}
	defer c.close()
	// VACUUM INTO counts as a write for query_only, though it changes nothing here.
	if err := c.script("PRAGMA query_only = OFF"); err != nil {
		temp.Close()
		return databaseError(r.path, err)
	}
	if _, err := c.Exec("VACUUM INTO ?", temp.Name()); err != nil {
		temp.Close()
		if isDamaged(err) {
			return databaseError(r.path, err)
		}
		return fileError("the backup cannot be written", err)
	}
	return errors.Join(temp.Sync(), temp.Close())
}

func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// checkBackup opens a copy, checks that it is whole and ours, and counts its messages.
func checkBackup(path string) (messages int64, err error) {
	c, err := openConn(readerDSN(path, true))
	if err != nil {
		return 0, databaseError(path, err)
	}
	defer c.close()
	version, err := checkVersion(c)
	if err != nil {
		return 0, databaseError(path, err)
	}
	if version == 0 {
		return 0, Errorf(Unavailable, "%s is no backup of a mailroom database", path)
	}
	problem, _, err := c.text(`PRAGMA integrity_check(1)`)
	if err != nil {
		return 0, databaseError(path, err)
	}
	if problem != "ok" {
		return 0, Errorf(Unavailable, "%s is damaged: %s", path, problem).WithHint("Use an older backup")
	}
	messages, err = c.number(`SELECT count(*) FROM agent_message`)
	return messages, databaseError(path, err)
}

// Restored is what a restore did.
type Restored struct {
	Messages int64  // rows of agent_message that the backup brought
	Previous string // where the database as it was before has been saved; "" when it was empty
}

// Restore replaces the contents of the database by those of a backup, in one transaction that other processes see as a
// whole; they need not be stopped. What was there before is saved beside the database first. Without force it is refused
// with conflict while undelivered messages are there, since they would be gone.
func (r *Router) Restore(ctx context.Context, file string, force bool) (Restored, error) {
	source, err := filepath.Abs(file)
	if err != nil {
		return Restored{}, err
	}
	info, err := os.Stat(source)
	if err != nil {
		return Restored{}, &Error{Code: NotFound, Message: "there is no backup " + source, Err: err}
	}
	if !info.Mode().IsRegular() {
		return Restored{}, Errorf(InvalidParams, "%s is not a regular file", source)
	}
	if os.SameFile(info, mustStat(r.path)) {
		return Restored{}, Errorf(InvalidParams, "%s is the database itself", source)
	}
	var done Restored
	if done.Messages, err = checkBackup(source); err != nil {
		return Restored{}, err
	}
	if !r.exists() {
		if err := r.writer.open(); err != nil {
			return Restored{}, err
		}
	}
	if _, _, damaged := r.presentContent(); damaged != nil {
		return Restored{}, r.replaceDamaged(damaged)
	}
	leave := r.writer.turn.enter(r.busy)
	defer leave()
	x, err := r.beginReplacing(ctx, source)
	if err != nil {
		return Restored{}, err
	}
	// From here on nobody else can write: what is saved now is all that the backup replaces.
	if done.Previous, err = r.savePrevious(ctx, force); err != nil {
		x.abandon()
		return Restored{}, err
	}
	if err := x.finish(); err != nil {
		return Restored{}, databaseError(r.path, err)
	}
	return done, r.write(ctx, func(t *tx) error { return t.configChanged() })
}

// savePrevious copies what a restore is about to replace beside the database, and returns the name of the copy, "" when
// there is nothing to save. Without force, undelivered messages are a conflict.
func (r *Router) savePrevious(ctx context.Context, force bool) (file string, err error) {
	total, waiting, err := r.presentContent()
	if err != nil {
		return "", err
	}
	if waiting > 0 && !force {
		return "", Errorf(Conflict, "the database holds %d undelivered messages, which the backup would replace", waiting).
			WithHint("Deliver them first, or repeat with --force: the database is saved beside itself before it is replaced")
	}
	if total == 0 {
		return "", nil
	}
	file = fmt.Sprintf("%s.before-restore-%s", r.path, r.now().UTC().Format("20060102T150405.000"))
	_, err = r.BackupTo(ctx, file, false)
	return file, err
}

// presentContent counts what a restore would replace. An error means that the database cannot even be read.
func (r *Router) presentContent() (total, waiting int64, err error) {
	err = r.read(func(c *conn) error {
		if total, err = c.number(`SELECT count(*) FROM agent_message`); err != nil {
			return err
		}
		waiting, err = c.number(`SELECT count(*) FROM agent_message WHERE ` + live)
		return err
	})
	return total, waiting, err
}

// replaceDamaged says how to get past a database that cannot be read: no transaction can replace it.
func (r *Router) replaceDamaged(cause error) error {
	return &Error{Code: Unavailable, Message: "the database cannot be read, so it cannot be replaced in place", Err: cause,
		Hint: recovery(r.path)}
}

// replacement copies a whole database over ours with SQLite's backup interface, in one write transaction.
type replacement struct {
	from, to *conn
	backup   *sqlite3.SQLiteBackup
}

// beginReplacing takes the write lock of the database, waiting for it as every writer does, and holds it until the
// replacement is finished or abandoned. Readers still see the database as it is.
func (r *Router) beginReplacing(ctx context.Context, source string) (*replacement, error) {
	x := &replacement{}
	var err error
	if x.from, err = openConn(readerDSN(source, true)); err != nil {
		return nil, databaseError(source, err)
	}
	if x.to, err = openConn(writerDSN(r.path)); err != nil {
		x.from.close()
		return nil, databaseError(r.path, err)
	}
	err = backoff.Retry(func() error {
		if x.backup, err = x.to.raw.Backup("main", x.from.raw, "main"); err != nil {
			return retryable(err)
		}
		// A step of no pages takes the lock. The driver reports a busy one only when the backup ends; what shows it
		// here is that the pages have not been counted.
		if _, err = x.backup.Step(0); err == nil && x.backup.PageCount() > 0 {
			return nil
		}
		if ferr := x.backup.Finish(); err == nil {
			err = ferr
		}
		return retryable(err)
	}, r.patience(ctx))
	if err != nil {
		x.from.close()
		x.to.close()
		return nil, databaseError(r.path, err)
	}
	return x, nil
}

// abandon gives the lock back and leaves the database as it was.
func (x *replacement) abandon() {
	x.backup.Finish()
	x.to.close()
	x.from.close()
}

// finish copies, and brings the copy to this version of the tables.
func (x *replacement) finish() error {
	defer x.from.close()
	defer x.to.close()
	_, err := x.backup.Step(-1)
	if ferr := x.backup.Finish(); err == nil {
		err = ferr
	}
	if err != nil {
		return err
	}
	return migrate(x.to)
}
