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

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// Restore replaces the contents of the database by those of a backup, in one transaction that other processes see as a
// whole; they need not be stopped. What was there before is saved beside the database first. Without force it is refused
// with conflict while undelivered messages are there, since they would be gone. What is outdated in the backup is ended before
// anybody can see it. The backup itself is only read; this process must not have it open as a database.
func (s *Store) Restore(ctx context.Context, file string, force bool, parts store.InBackup) (done store.Restored, err error) {
	staged, err := s.stage(file)
	if err != nil {
		return store.Restored{}, err
	}
	defer staged.remove()
	if err := s.mayReplaceTables(staged.copy()); err != nil {
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
	x, err := s.beginReplacing(ctx, staged.copy(), until)
	if err != nil {
		return store.Restored{}, err
	}
	// From here on nobody else can write: what is saved now is all that the backup replaces.
	if err = s.mayReplace(ctx); err == nil {
		done.Compared, err = s.compare(staged.copy(), parts.Outside)
	}
	if err == nil {
		done.Ended, err = endOutdated(s, ctx, x.from, parts.Outdated)
	}
	if err == nil {
		done.Previous, err = s.savePrevious(ctx, force)
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

// Compare says what a restore of a backup would bring and take. It changes nothing, and makes no database.
func (s *Store) Compare(_ context.Context, file string, outside []string) (store.Compared, error) {
	staged, err := s.stage(file)
	if err != nil {
		return store.Compared{}, err
	}
	defer staged.remove()
	if err := s.mayReplaceTables(staged.copy()); err != nil {
		return store.Compared{}, err
	}
	return s.compare(staged.copy(), outside)
}

// compare counts the messages of a staged copy, and those of the database that it has not, and lists what the copy does outside of itself
// and the database does not.
func (s *Store) compare(staged string, outside []string) (found store.Compared, err error) {
	c, err := openConn(writerDSN(staged))
	if err != nil {
		return found, databaseError(staged, err)
	}
	defer c.close()
	if found.Messages, err = c.Number(`SELECT count(*) FROM agent_message`); err != nil {
		return found, databaseError(staged, err)
	}
	present := map[string]bool{}
	if s.Exists() {
		p, err := openConn(readerDSN(s.path, false))
		if err != nil {
			return found, databaseError(s.path, err)
		}
		defer p.close()
		if version, err := checkVersion(p); err != nil {
			return found, databaseError(s.path, err)
		} else if version > 0 {
			if found.Missing, err = missing(p, c); err != nil {
				return found, databaseError(s.path, err)
			}
		}
		for _, query := range outside {
			list, _ := p.Texts(query) // tables of an earlier version may have fewer columns: then it does nothing of the kind
			for _, does := range list {
				present[does] = true
			}
		}
	}
	for _, query := range outside {
		list, err := c.Texts(query)
		if err != nil {
			return found, databaseError(staged, err)
		}
		for _, does := range list {
			if !present[does] {
				found.Adds = append(found.Adds, does)
			}
		}
	}
	return found, nil
}

// missing counts the messages of a database that are not in another, archived ones among both.
func missing(present, backup *conn) (n int64, err error) {
	for _, table := range []string{"agent_message", "agent_message_archive"} {
		err := present.Query(`SELECT message_id FROM `+table, func(row store.Row) error {
			is, err := backup.Number(`SELECT EXISTS (SELECT 1 FROM agent_message WHERE message_id = ?1) OR EXISTS (SELECT 1 FROM agent_message_archive WHERE message_id = ?1)`, row.Text(0))
			n += 1 - is
			return err
		})
		if err != nil {
			return 0, err
		}
	}
	return n, nil
}

// mayReplaceTables refuses to replace tables of another program, or to bring such tables into a database that is there: a backup
// of the database has the same ones. Tables are compared by their definitions.
func (s *Store) mayReplaceTables(staged string) error {
	if s.missing() {
		return nil
	}
	var foreign [2]map[string]string
	for i, dsn := range []string{readerDSN(s.path, false), writerDSN(staged)} {
		c, err := openConn(dsn)
		if err == nil {
			foreign[i], err = foreignTables(c)
			c.close()
		}
		if isDamaged(err) && i == 0 {
			return nil // what cannot be read is refused later, which says what to do
		}
		if err != nil {
			return databaseError(s.path, err)
		}
	}
	for i, says := range []string{
		"the database holds tables of another program, such as %s, which the backup has not: they would be lost",
		"the backup brings tables and triggers that are not Mailroom's, such as %s, and the database has none such",
	} {
		for name, made := range foreign[i] {
			if foreign[1-i][name] != made {
				return orchestrator.Errorf(orchestrator.Conflict, says, name).
					WithHint("Restore the backup into a file of its own: `mailroom --db OTHER.db restore BACKUP`")
			}
		}
	}
	return nil
}

// backupAt returns the full path of a backup that may be restored.
func (d *dbFile) backupAt(file string) (source string, err error) {
	if source, err = filepath.Abs(file); err != nil {
		return "", err
	}
	if real, err := filepath.EvalSymlinks(source); err == nil {
		source = real // beside which SQLite keeps its files
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

// stage copies a backup, with what SQLite keeps beside it, into a folder beside the database, checks the copy and brings it to this version
// of the tables. What is to be changed in it is changed there: nobody must ever see the database with tokens that are not valid any more.
func (s *Store) stage(file string) (staged *copyFolder, err error) {
	source, err := s.backupAt(file)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return nil, fileError("the backup cannot be copied", err)
	}
	temp, staged, err := s.openCopy(filepath.Dir(s.path), "restore")
	if err != nil {
		return nil, fileError("the backup cannot be copied", err)
	}
	temp.Close()
	taken, err := copyStill(source, staged.copy())
	if err == nil {
		err = checkStaged(staged.copy(), strings.Join(taken, ", with "))
	}
	if err != nil {
		staged.remove()
		return nil, err
	}
	return staged, nil
}

// checkStaged checks the copy of a backup and migrates it. named is what the copy was made of.
func checkStaged(path, named string) error {
	c, err := openConn(writerDSN(path))
	if err != nil {
		return backupError(named, err)
	}
	defer c.close()
	if _, err := checkCopy(c, named); err != nil {
		return err
	}
	if err := migrate(c, nil); err != nil {
		return databaseError(named, err)
	}
	if err := checkTables(c, named); err != nil {
		return err
	}
	return databaseError(named, reopen(c))
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
	name := fmt.Sprintf("%s.before-restore-%s", s.path, s.now().UTC().Format("20060102T150405.000"))
	file = name
	for n := 2; mustStat(file) != nil; n++ { // of another restore at that time
		file = fmt.Sprintf("%s-%d", name, n)
	}
	_, err = s.Backup(ctx, file, false)
	return file, err
}

// presentContent counts what a restore would replace: messages, agents and tables of others. An error means that the database cannot even be read.
func (s *Store) presentContent(ctx context.Context) (total, waiting int64, err error) {
	err = s.look(ctx, func(c *conn) error {
		if total, err = c.Number(`SELECT (SELECT count(*) FROM agent_message) + (SELECT count(*) FROM agent_message_archive) + (SELECT count(*) FROM agents)`); err != nil {
			return err
		}
		if waiting, err = c.Number(`SELECT count(*) FROM agent_message WHERE status IN ('pending','retry')`); err != nil {
			return err
		}
		foreign, err := foreignTables(c)
		total += int64(len(foreign))
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
