package sqlite

import (
	"context"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/cenkalti/backoff/v4"
	sqlite3 "github.com/mattn/go-sqlite3"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// This file contains the parts that are specific to SQLite: how to open a connection, the meaning of errors, and how
// long to retry busy errors.

// writerDSN returns the address of a read-write connection. The busy timeout comes first, so that the statements
// after it wait. The timeout is short, because processes wait for their turn at the turnstile and the writer retries
// by itself. synchronous=FULL makes a commit durable before it returns, which is needed to create, migrate and
// restore a database; for other commits the writer does that later, see walFile. auto_vacuum is set when the file is
// created and not here, where it would turn every open into a write.
func writerDSN(path string) string {
	return fileURI(path, url.Values{
		"mode":          {"rw"},
		"_busy_timeout": {"250"},
		"_txlock":       {"immediate"},
		"_sync":         {"FULL"},
		"_mutex":        {"no"},
	})
}

// readerDSN returns the address of a connection that cannot write. With immutable, SQLite reads the file without
// locks. This works on a read-only disk, and is safe only while nobody can write there.
func readerDSN(path string, immutable bool) string {
	q := url.Values{
		"mode":          {"ro"},
		"_busy_timeout": {"2000"},
		"_query_only":   {"true"},
		"_mutex":        {"no"},
	}
	if immutable {
		q.Set("immutable", "1")
	}
	return fileURI(path, q)
}

func fileURI(path string, q url.Values) string {
	u := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: q.Encode()}
	return u.String()
}

// isBusy reports whether err was caused by a lock of another connection, so that a retry can help.
func isBusy(err error) bool {
	var e sqlite3.Error
	return errors.As(err, &e) && (e.Code == sqlite3.ErrBusy || e.Code == sqlite3.ErrLocked)
}

// isDamaged reports whether err means that the file is damaged or not a database.
func isDamaged(err error) bool {
	code := sqliteCode(err)
	return code == sqlite3.ErrCorrupt || code == sqlite3.ErrNotADB
}

// isNoDatabase reports whether err means that the file was not written by SQLite.
func isNoDatabase(err error) bool { return sqliteCode(err) == sqlite3.ErrNotADB }

func sqliteCode(err error) sqlite3.ErrNo {
	var e sqlite3.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return 0
}

// databaseError adds to an error of the database its code and a hint what to do. An error that already has a code is
// returned unchanged.
func databaseError(path string, err error) error {
	var own *orchestrator.Error
	if err == nil || errors.As(err, &own) {
		return err
	}
	fail := func(code orchestrator.Code, message, hint string) error {
		return &orchestrator.Error{Code: code, Message: message, Hint: hint, Err: err}
	}
	errno, ofSystem := errors.AsType[syscall.Errno](err)
	switch code := sqliteCode(err); {
	case code == sqlite3.ErrBusy, code == sqlite3.ErrLocked:
		return fail(orchestrator.Busy, "the database "+path+" is locked by another program; nothing was written",
			"Try again. If the database stays locked, run `mailroom doctor` to see which program has it open")
	case code == sqlite3.ErrFull, errno == syscall.ENOSPC, errno == syscall.EDQUOT:
		return fail(orchestrator.Unavailable, "the disk that holds "+path+" is full; nothing was written",
			"Free some space and try again. Once a little space is free, run `mailroom clear_old` to free more")
	case code == sqlite3.ErrNotADB:
		return fail(orchestrator.Unavailable, path+" is not a SQLite database",
			"Specify another file with --db, or move this file away. If this file was a database, run `mailroom doctor` to see how to recover it")
	case code == sqlite3.ErrCorrupt:
		return fail(orchestrator.Unavailable, "the database "+path+" is damaged",
			"To see the damage and how to recover from a backup, run `mailroom doctor`")
	case code == sqlite3.ErrReadonly, code == sqlite3.ErrPerm, code == sqlite3.ErrAuth:
		return fail(orchestrator.Unavailable, "cannot write to the database "+path,
			"Check the permissions of the file and of its folder")
	case code == sqlite3.ErrIoErr, errno == syscall.EIO:
		return fail(orchestrator.Unavailable, "the disk that holds "+path+" reported an error; nothing was written",
			"Check the disk. To check the database, run `mailroom doctor`")
	case code == sqlite3.ErrTooBig:
		return store.Refused(err)
	case code == sqlite3.ErrCantOpen, ofSystem:
		return fail(orchestrator.Unavailable, "cannot open the database "+path, whyNotOpen(path))
	}
	if e, is := errors.AsType[sqlite3.Error](err); is {
		switch e.ExtendedCode {
		case sqlite3.ErrConstraintTrigger, sqlite3.ErrConstraintUnique, sqlite3.ErrConstraintForeignKey: // of the user
			return store.Refused(err)
		}
	}
	return err
}

// whyNotOpen finds in the file system the reason that SQLite does not report.
func whyNotOpen(path string) string {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return "The path is a folder. Specify a file in it, such as " + strings.TrimRight(path, "/") + "/mailroom.db"
	case err != nil && lost(path) != "":
		return lost(path)
	case errors.Is(err, fs.ErrNotExist):
		return "The file does not exist and cannot be created. Check the permissions of its folder"
	case err != nil:
		return "Check the path and its permissions (" + err.Error() + ")"
	}
	return "Check the permissions of the file and of its folder"
}

// lost describes the part of a path that is a broken symbolic link. It returns "" if there is none.
func lost(path string) string {
	for ; path != filepath.Dir(path); path = filepath.Dir(path) {
		_, err := os.Stat(path)
		to, noLink := os.Readlink(path)
		if noLink == nil && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ELOOP)) {
			return path + " is a broken symbolic link to " + to + ". Create the target, or remove the link"
		}
	}
	return ""
}

// patience returns the retry schedule for a lock that another program holds: random intervals that grow from 1 ms to
// 50 ms, until the given time.
func patience(ctx context.Context, until time.Time) backoff.BackOffContext {
	b := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(time.Millisecond),
		backoff.WithMaxInterval(50*time.Millisecond),
		backoff.WithMaxElapsedTime(max(time.Until(until), time.Nanosecond)), // 0 would mean no limit
	)
	return backoff.WithContext(b, ctx)
}

// retryable returns a busy error unchanged, so that it is retried, and marks any other error as permanent.
func retryable(err error) error {
	if err == nil || isBusy(err) {
		return err
	}
	return backoff.Permanent(err)
}
