package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v4"
	sqlite3 "github.com/mattn/go-sqlite3"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// Restore replaces the contents of the database by those of a backup, in one transaction that other processes see as a
// whole; they need not be stopped. What was there before is saved beside the database first. Without force it is refused
// with conflict while undelivered messages are there, since they would be gone. What is outdated in the backup is ended before
// anybody can see it.
func (s *Store) Restore(ctx context.Context, file string, force bool, outdated []store.Outdated) (done store.Restored, err error) {
	source, err := s.backupAt(file)
	if err != nil {
		return store.Restored{}, err
	}
	if done.Messages, err = checkBackup(source); err != nil {
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
	staged, err := stage(s, source)
	if err != nil {
		return store.Restored{}, err
	}
	defer staged.remove()
	until := time.Now().Add(s.busy)
	leave := s.backend.turn.enter(s.busy)
	defer leave()
	x, err := s.beginReplacing(ctx, filepath.Join(staged.path, copyName), until)
	if err != nil {
		return store.Restored{}, err
	}
	// From here on nobody else can write: what is saved now is all that the backup replaces.
	if err = s.mayReplace(ctx); err == nil {
		done.Previous, err = s.savePrevious(ctx, force)
	}
	if err == nil {
		done.Ended, err = endOutdated(s, ctx, x.from, outdated)
	}
	if err != nil {
		x.abandon()
		return store.Restored{}, err
	}
	if err := x.finish(); err != nil {
		return store.Restored{}, databaseError(s.path, err)
	}
	return done, nil
}

// backupAt returns the full path of a backup that may be restored.
func (d *dbFile) backupAt(file string) (source string, err error) {
	if source, err = filepath.Abs(file); err != nil {
		return "", err
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

// stage copies a backup beside the database and brings the copy to this version of the tables. What is to be changed in it
// is changed there: nobody must ever see the database with tokens that are not valid any more.
func stage(s *Store, source string) (staged *copyFolder, err error) {
	temp, staged, err := s.openCopy(filepath.Dir(s.path), "restore")
	if err != nil {
		return nil, fileError("the backup cannot be copied", err)
	}
	if err = vacuumInto(temp, source, readerDSN(source, true), "the backup cannot be copied"); err == nil {
		var c *conn
		if c, err = openConn(writerDSN(temp.Name())); err == nil {
			if err = migrate(c, nil); err == nil {
				err = reopen(c)
			}
			err = errors.Join(err, c.close())
		}
		err = databaseError(source, err)
	}
	if err != nil {
		staged.remove()
		return nil, err
	}
	return staged, nil
}

// reopen makes a backup of a database that had moved away one that can be written. It is a database of its own from now on.
func reopen(c *conn) error {
	settings, err := store.MoveSettings(c.Conn)
	if err != nil || len(settings) == 0 {
		return err
	}
	if err := c.Script(`BEGIN; DELETE FROM settings WHERE key IN ('` + store.MovedTo + `', '` + store.MovingFrom + `')`); err != nil {
		return err
	}
	if err := c.Shut(); err != nil {
		return err
	}
	return c.Script("COMMIT")
}

// mayReplace refuses to replace a database that has moved away: it would be written again, beside the one that it has become.
func (s *Store) mayReplace(ctx context.Context) error {
	return s.Read(ctx, func(c *store.Conn) error {
		settings, err := store.MoveSettings(c)
		if err != nil {
			return err
		}
		err = store.Closed(s.path, settings)
		var closed *orchestrator.Error
		if errors.As(err, &closed) {
			closed.Hint = "Restore the backup into a file of another name: `mailroom --db OTHER.db restore BACKUP`. `mailroom migrate` moves that to a server, where there is room for it"
		}
		return err
	})
}

// endOutdated ends in a backup what is not true any more, and counts it by its kind.
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

// savePrevious copies what a restore is about to replace beside the database, and returns the name of the copy, "" when
// there is nothing to save. Without force, undelivered messages are a conflict.
func (s *Store) savePrevious(ctx context.Context, force bool) (file string, err error) {
	total, waiting, err := s.presentContent(ctx)
	if err != nil {
		return "", err
	}
	if waiting > 0 && !force {
		return "", orchestrator.Errorf(orchestrator.Conflict, "the database holds %d undelivered messages, which the backup would replace", waiting).
			WithHint("Deliver them first, or repeat with --force: the database is saved beside itself before it is replaced")
	}
	if total == 0 {
		return "", nil
	}
	file = fmt.Sprintf("%s.before-restore-%s", s.path, s.now().UTC().Format("20060102T150405.000"))
	_, err = s.Backup(ctx, file, false)
	return file, err
}

// presentContent counts what a restore would replace. An error means that the database cannot even be read.
func (s *Store) presentContent(ctx context.Context) (total, waiting int64, err error) {
	err = s.Read(ctx, func(c *store.Conn) error {
		if total, err = c.Number(`SELECT count(*) FROM agent_message`); err != nil {
			return err
		}
		waiting, err = c.Number(`SELECT count(*) FROM agent_message WHERE status IN ('pending','retry')`)
		return err
	})
	return total, waiting, err
}

// replaceDamaged says how to get past a database that cannot be read: no transaction can replace it.
func (d *dbFile) replaceDamaged(cause error) error {
	return &orchestrator.Error{Code: orchestrator.Unavailable, Message: "the database cannot be read, so it cannot be replaced in place", Err: cause,
		Hint: recovery(d.path)}
}

// replacement copies a whole database over ours with SQLite's backup interface, in one write transaction.
type replacement struct {
	from, to *conn
	backup   *sqlite3.SQLiteBackup
}

// beginReplacing takes the write lock of the database, waiting for it as every writer does, and holds it until the
// replacement is finished or abandoned. Readers still see the database as it is.
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
		// A step of no pages takes the lock. The driver reports a busy one only when the backup ends; what shows it
		// here is that the pages have not been counted.
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

// abandon gives the lock back and leaves the database as it was.
func (x *replacement) abandon() {
	x.backup.Finish()
	x.to.close()
	x.from.close()
}

// finish copies.
func (x *replacement) finish() error {
	defer x.from.close()
	defer x.to.close()
	_, err := x.backup.Step(-1)
	if ferr := x.backup.Finish(); err == nil {
		err = ferr
	}
	return err
}
