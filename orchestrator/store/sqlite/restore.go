package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"
	sqlite3 "github.com/mattn/go-sqlite3"

	"mailroom"
	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/store/sqlite/check"
	"mailroom/orchestrator/store/sqlite/copies"
	"mailroom/orchestrator/store/sqlite/tables"
)

// Restore replaces the contents of the database with those of a backup, in one transaction that other processes see
// as a whole; they need not be stopped. It first saves the previous contents beside the database. Without force it
// fails with conflict if there are undelivered messages, since they would be lost. Outdated records of the backup
// are ended before anybody can see them. The backup is only read. This process must not have the backup open as a
// database.
func (s *Store) Restore(ctx context.Context, file string, force bool, parts store.InBackup) (done store.Restored,
	err error) {
	staged, err := stage(s, file)
	if err != nil {
		return store.Restored{}, err
	}
	defer staged.Remove()
	if _, err := compare(s, staged.Copy(), nil); err != nil { // before tables are created in a file of another program
		return store.Restored{}, err
	}
	if !s.Exists() {
		if err := s.backend.open(time.Now().Add(s.busy)); err != nil {
			return store.Restored{}, err
		}
	}
	if err := admit(ctx, s); errors.Is(err, store.ErrOutdated) {
		return store.Restored{}, err
	}
	if _, _, damaged := s.presentContent(ctx); damaged != nil {
		return store.Restored{}, s.replaceDamaged(damaged)
	}
	until := time.Now().Add(s.busy)
	leave := s.backend.turn.enter(s.busy)
	defer leave()
	x, err := s.beginReplacing(ctx, staged.Copy(), until)
	if err != nil {
		return store.Restored{}, err
	}
	// From here on nobody else can write, so the saved copy has everything that the backup replaces.
	if err = s.mayReplace(ctx); err == nil {
		done.Compared, err = compare(s, staged.Copy(), parts.Outside)
	}
	if err == nil {
		done.Ended, err = endOutdated(s, ctx, x.from, parts.Outdated)
	}
	if err == nil {
		done.Previous, err = savePrevious(ctx, s, force)
	}
	if err != nil {
		x.abandon()
		return store.Restored{}, err
	}
	if err := x.finish(); err != nil {
		return store.Restored{}, done.NamePrevious(databaseError(s.path, err))
	}
	return done, nil
}

// Compare reports what a restore of a backup would add and remove. It changes nothing, and does not create a
// database.
func (s *Store) Compare(ctx context.Context, file string, outside []string) (found store.Compared, err error) {
	staged, err := stage(s, file)
	if err != nil {
		return store.Compared{}, err
	}
	defer staged.Remove()
	if found, err = compare(s, staged.Copy(), outside); err == nil && !s.missing() {
		_, found.Undelivered, err = s.presentContent(ctx)
	}
	return found, err
}

// compare refuses a staged copy that must not replace the database, and reports what the copy would add and remove.
func compare(s *Store, staged string, outside []string) (found store.Compared, err error) {
	c, err := openConn(writerDSN(staged))
	if err != nil {
		return found, databaseError(staged, err)
	}
	defer c.close()
	if s.missing() {
		return copies.Compare(nil, c.Conn, outside)
	}
	p, err := openConn(readerDSN(s.path, false))
	if err != nil {
		return found, databaseError(s.path, err)
	}
	defer p.close()
	version, err := tables.CheckVersion(p.Conn)
	if err == nil {
		err = fresh(func(ours *store.Conn) error { return copies.MayReplace(p.Conn, c.Conn, ours) })
	}
	if err == nil && version > 0 {
		found, err = copies.Compare(p.Conn, c.Conn, outside)
	}
	if isDamaged(err) {
		return found, s.replaceDamaged(err)
	}
	return found, databaseError(s.path, err)
}

// fresh calls f with a new database in memory.
func fresh(f func(ours *store.Conn) error) error {
	c, err := openConn(":memory:")
	if err != nil {
		return err
	}
	defer c.close()
	if err := c.Script(mailroom.Schema); err != nil {
		return err
	}
	return f(c.Conn)
}

// backupAt returns the full path of a backup, and refuses a file that cannot be restored.
func (d *dbFile) backupAt(file string) (source string, err error) {
	if source, err = filepath.Abs(file); err != nil {
		return "", err
	}
	if real, err := filepath.EvalSymlinks(source); err == nil {
		source = real // SQLite keeps its other files beside this path
	}
	info, err := os.Stat(source)
	if err != nil {
		return "", &orchestrator.Error{Code: orchestrator.NotFound, Message: "there is no backup " + source, Err: err}
	}
	if !info.Mode().IsRegular() {
		return "", orchestrator.Errorf(orchestrator.InvalidParams, "%s is not a regular file", source)
	}
	if os.SameFile(info, mustStat(d.path)) {
		return "", orchestrator.Errorf(orchestrator.InvalidParams, "%s is the database itself", source)
	}
	return source, nil
}

// stage copies a backup, with the files that SQLite keeps beside it, into a folder beside the database. It checks
// the copy and migrates it to this version of the tables. All changes to the records are made in the copy, because
// nobody may see the database with tokens that are no longer valid.
func stage(s *Store, file string) (staged *copies.Folder, err error) {
	source, err := s.backupAt(file)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return nil, fileError("cannot copy the backup", err)
	}
	temp, staged, err := s.openCopy(filepath.Dir(s.path), "restore")
	if err != nil {
		return nil, fileError("cannot copy the backup", err)
	}
	temp.Close()
	taken, err := copies.Still(source, staged.Copy())
	if err == nil {
		err = checkStaged(staged.Copy(), strings.Join(taken, ", with "))
	}
	if err != nil {
		staged.Remove()
		return nil, err
	}
	return staged, nil
}

// checkStaged checks the copy of a backup and migrates it. named lists the files from which the copy was made.
func checkStaged(path, named string) error {
	c, err := openConn(writerDSN(path))
	if err != nil {
		return backupError(named, err)
	}
	defer c.close()
	if _, err := checkCopy(c, named); err != nil {
		return err
	}
	if err := c.Migrate(nil); err != nil {
		return databaseError(named, err)
	}
	if err := fresh(func(ours *store.Conn) error { return copies.Check(c.Conn, ours, named) }); err != nil {
		return databaseError(named, err)
	}
	return databaseError(named, reopen(c))
}

// reopen makes the copy of a database that had moved away writable again. From now on the copy is a separate
// database.
func reopen(c *conn) error {
	settings, err := store.MoveSettings(c.Conn)
	if err != nil || len(settings) == 0 {
		return err
	}
	if err := c.Script(`BEGIN; DELETE FROM settings WHERE key IN ('` + store.MovedTo + `', '` + store.MovingFrom +
		`')`); err != nil {
		return err
	}
	if err := c.Shut(); err != nil {
		return err
	}
	return c.Script("COMMIT")
}

// mayReplace refuses to replace a database that has moved away. Otherwise both this database and the database
// at the new place would be written.
func (s *Store) mayReplace(ctx context.Context) error {
	return s.Read(ctx, func(c *store.Conn) error {
		settings, err := store.MoveSettings(c)
		if err != nil {
			return err
		}
		err = store.Closed(s.path, settings)
		var closed *orchestrator.Error
		if errors.As(err, &closed) {
			closed.Hint = "Restore the backup into a file with a different name: `mailroom --db OTHER.db restore BACKUP`. To move the restored database to a server, run `mailroom migrate` with the address of an empty database"
		}
		return err
	})
}

// endOutdated ends the outdated records in a copy of a backup, and counts them by kind.
func endOutdated(s *Store, ctx context.Context, c *conn, outdated []store.Outdated) (map[string]int64, error) {
	now, ended := orchestrator.Stamp(s.now()), map[string]int64{}
	if err := c.Script("BEGIN"); err != nil {
		return nil, err
	}
	for _, o := range outdated {
		if o.Valid == "" {
			if _, err := c.Exec(o.End, now); err != nil {
				return nil, err
			}
			continue
		}
		var present []string
		err := s.Read(ctx, func(c *store.Conn) (err error) {
			present, err = c.Texts(o.Valid, now)
			return err
		})
		if err != nil {
			return nil, err
		}
		brought, err := c.Texts(o.Valid, now)
		if err != nil {
			return nil, err
		}
		for _, id := range brought {
			if slices.Contains(present, id) {
				continue
			}
			if _, err := c.Exec(o.End, now, id); err != nil {
				return nil, err
			}
			ended[o.Kind]++
		}
	}
	return ended, c.Script("COMMIT")
}

// savePrevious saves a copy of the current contents beside the database and returns the name of the copy, or "" if
// there is nothing to save. Without force, undelivered messages are a conflict.
func savePrevious(ctx context.Context, s *Store, force bool) (file string, err error) {
	total, waiting, err := s.presentContent(ctx)
	if err != nil {
		return "", err
	}
	if !force {
		if err := store.KeepsUndelivered(waiting); err != nil {
			return "", err
		}
	}
	if total == 0 {
		return "", nil
	}
	name := fmt.Sprintf("%s.before-restore-%s", s.path, s.now().UTC().Format("20060102T150405.000"))
	file = name
	for n := 2; mustStat(file) != nil; n++ { // a name of another restore at that time
		file = fmt.Sprintf("%s-%d", name, n)
	}
	_, err = s.Backup(ctx, file, false)
	return file, err
}

// presentContent counts what a restore would replace: messages, agents and tables of other programs. An error means
// that the database cannot be read at all.
func (s *Store) presentContent(ctx context.Context) (total, waiting int64, err error) {
	err = s.Read(ctx, func(c *store.Conn) error {
		if total, err = c.Number(`SELECT (SELECT count(*) FROM agent_message) + (SELECT count(*)
			FROM agent_message_archive) + (SELECT count(*) FROM agents)`); err != nil {
			return err
		}
		if waiting, err = c.Number(`SELECT count(*) FROM agent_message
			WHERE status IN ('pending','retry')`); err != nil {
			return err
		}
		return fresh(func(ours *store.Conn) error {
			foreign, err := copies.Foreign(c, ours)
			total += int64(len(foreign))
			return err
		})
	})
	return total, waiting, err
}

// replaceDamaged returns the error for a database that cannot be read, and which no transaction can therefore
// replace.
func (d *dbFile) replaceDamaged(cause error) error {
	return &orchestrator.Error{Code: orchestrator.Unavailable,
		Message: "cannot replace the database in place because it cannot be read", Err: cause,
		Hint: check.Recovery(d.path)}
}

// replacement copies a whole database over the current one with SQLite's backup interface, in one write transaction.
type replacement struct {
	from, to *conn
	backup   *sqlite3.SQLiteBackup
}

// beginReplacing takes the write lock of the database, waiting for it like any writer, and holds it until the
// replacement is finished or abandoned. Meanwhile readers still see the previous contents.
func (s *Store) beginReplacing(ctx context.Context, source string, until time.Time) (*replacement, error) {
	x := &replacement{}
	var err error
	if x.from, err = openConn(writerDSN(source)); err != nil {
		return nil, databaseError(source, err)
	}
	if x.to, err = openConn(writerDSN(s.path)); err != nil {
		x.from.close()
		return nil, databaseError(s.path, err)
	}
	err = backoff.Retry(func() error {
		if x.backup, err = x.to.raw.Backup("main", x.from.raw, "main"); err != nil {
			return retryable(err)
		}
		// A step of no pages takes the lock. The driver reports a busy error only when the backup ends. Here, a page
		// count of 0 shows that the lock is busy.
		if _, err = x.backup.Step(0); err == nil && x.backup.PageCount() > 0 {
			return nil
		}
		if ferr := x.backup.Finish(); err == nil {
			err = ferr
		}
		return retryable(err)
	}, patience(ctx, until))
	if err != nil {
		x.from.close()
		x.to.close()
		return nil, databaseError(s.path, err)
	}
	return x, nil
}

// abandon releases the lock and leaves the database unchanged.
func (x *replacement) abandon() {
	x.backup.Finish()
	x.to.close()
	x.from.close()
}

// finish copies all pages.
func (x *replacement) finish() error {
	defer x.from.close()
	defer x.to.close()
	_, err := x.backup.Step(-1)
	if ferr := x.backup.Finish(); err == nil {
		err = ferr
	}
	return err
}
