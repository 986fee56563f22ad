// Package store is the boundary between the engine and its database.
package store

import (
	"context"
	"errors"
	"math"
	"time"

	"mailroom/orchestrator"
)

// ErrOutdated is the cause of an error about a database whose tables a newer version of Mailroom has changed so much
// that this program must not use it any more. The change may also have happened while the program had the database
// open. Nothing was read or written.
var ErrOutdated = errors.New("a newer Mailroom has changed the tables")

// Store is an open database. It is safe for concurrent use.
type Store interface {
	// Write runs a request in a write transaction and returns when its changes are on the disk, see Writer.
	Write(q *Request) error
	// Read calls fn with a connection whose statements all see the same snapshot of the database. fn must not keep
	// the connection, must not write to a slow client and must not read through the store: readers that wait for
	// each other could occupy all connections. fn may run more than once if the connection to a server is lost, so
	// it must overwrite its results rather than append to them. The error is busy if ctx ends before a connection is
	// free.
	Read(ctx context.Context, fn func(c *Conn) error) error
	// Look is like Read but without a snapshot: fn runs one statement, or several that need not see the same state.
	Look(ctx context.Context, fn func(c *Conn) error) error
	// Explain adds to an error of the database its code and a hint what to do. Other errors are returned unchanged.
	Explain(err error) error
	// Path returns the name of the database, for messages and for other processes that must open it.
	Path() string
	// FilePrefix returns the beginning of the paths of this machine's files that belong to the database: locks of
	// its agents' commands, and keys that must not be stored in the database. If the machine has no folder for such
	// files, no file can be created under this prefix.
	FilePrefix() string
	// Bell returns the bell that wakes those who wait for the writes of others.
	Bell() orchestrator.Bell
	// Token makes a lease token of this process from an id. Gone reports whether the process that made a token is
	// known to be dead.
	Token(id string) string
	Gone(token string) bool
	// Alive returns a context that ends when Gone may soon be true for this process although it is running: the
	// process has lost the database, and other processes will take its host for dead. Work under a lease must then
	// end, since others will take over that work.
	Alive() context.Context
	// Create creates the database if it does not exist yet, and reports whether it did. It does not create one where
	// a database existed before.
	Create() (created bool, err error)
	// Exists reports whether the database exists. NoneYet reports whether there is no database, and no trace of an
	// earlier one.
	Exists() bool
	NoneYet() bool
	// Ready checks that the database can be read and written now. Its errors are busy and unavailable.
	Ready(ctx context.Context) error
	// Size returns the number of bytes of the database on disk, and how many of them are a log that a checkpoint
	// folds into the database. Unknown sizes are 0.
	Size() (all, log int64)
	Close() error
}

// Optional interfaces. A Store implements those that its kind of database supports.
type (
	// Backuper copies the database into a file and back.
	Backuper interface {
		Backup(ctx context.Context, file string, overwrite bool) (Backup, error)
		Restore(ctx context.Context, file string, force bool, parts InBackup) (Restored, error)
		Compare(ctx context.Context, file string, outside []string) (Compared, error) // what a restore would change
	}
	// Console runs queries that people write by hand.
	Console interface {
		Query(ctx context.Context, statement string, bound Bound, params ...any) (Table, error)
	}
	// Central is a database on a server. Many hosts use it and go by its clock.
	Central interface {
		Now() time.Time
		Place() string // its servers, database and schema; the same for every client and every form of the address
		Settled(ctx context.Context) (Settled, error)
		// Enters returns the error with which the server refuses a program that gets the address without its
		// password and without PGPASSWORD.
		Enters(ctx context.Context) error
		// LockedBy names the sessions of other programs that may have locked rows of messages.
		LockedBy(c *Conn) ([]string, error)
	}
	// Versioned detects commits cheaply: after a commit, version differs. Two versions can be compared if known is
	// true for both. It is safe for concurrent use.
	Versioned interface {
		Version() (version int64, known bool)
	}
	// Observer reports which tables the statements of this process use.
	Observer interface {
		Watch(report func(op, table string)) (stop func())
	}
	// Shrinker releases free space of the database.
	Shrinker interface {
		Shrink(ctx context.Context) error
		Checkpoint(truncate bool, limit int64) (Checkpointed, error)
	}
	// Checker looks for problems of the database itself that an operator should know.
	Checker interface {
		CheckPlace(ctx context.Context, report Report)              // checks the place of the database, if it exists
		CheckLock(ctx context.Context, report Report) (locked bool) // whether nobody can write now
	}
	// FileChecker checks a database that is a file on this machine.
	FileChecker interface {
		CheckTables(c *Conn, all bool, report Report) error // checks the log; with all, the whole file
		CheckCopies(folders []string, report Report)        // checks for the remains of killed backups
		Recovery(err error) string                          // how to recover from damage; "" for other errors
	}
)

// Settled holds the ids up to which the traces are complete, so that no transaction can add a row with a smaller id.
// If several transactions run at the same time, one may commit after another that has larger ids. A reader that
// follows the ids alone would never see the rows of the first transaction.
type Settled struct {
	Events, Commands int64  // ids of message_trace and of command_trace
	Dense            bool   // a missing id was deleted; if false, its transaction may also have been rolled back
	Holder           string // the transaction that keeps larger ids from being settled; "" if there is none
}

// SettledIn returns the ids up to which the traces of a store are complete. A reader that follows a trace must call
// it before it takes the snapshot in which it reads the rows. If only one transaction writes at a time, all visible
// rows are settled.
func SettledIn(ctx context.Context, s Store) (Settled, error) {
	if central, ok := s.(Central); ok {
		return central.Settled(ctx)
	}
	return Settled{Events: math.MaxInt64, Commands: math.MaxInt64, Dense: true}, nil
}

// Levels of findings.
const (
	Fine    = "ok"
	Note    = "note"
	Problem = "problem"
)

// Report receives a finding of a check and its level. do is the advice for the finding.
type Report func(check, level, says, do string)

// Able returns a store as one of the optional interfaces. The error is unavailable if the database does not support
// it.
func Able[T any](s Store, what string) (T, error) {
	can, ok := s.(T)
	if !ok {
		return can, orchestrator.Errorf(orchestrator.Unavailable, "this kind of database does not support %s",
			what).WithHint("Use a tool for the database server, such as pg_dump")
	}
	return can, nil
}

// Prepared is called with the text of each statement that a connection prepares, in the goroutine that prepares the
// statement. It may be nil. Tests set it to check the statements against other databases.
var Prepared func(text string)

// ConfigVersion is the key of the row of settings that changes whenever agents, groups or settings change.
const ConfigVersion = "config.version"

// DatabaseID is the key of the row of settings that identifies the database. All copies of a database have the same
// id.
const DatabaseID = "database.id"

// StoreSetting sets the row ?1 of settings to ?2 at the time ?3.
const StoreSetting = `
	INSERT INTO settings (key, value, updated_at) VALUES (?1, ?2, ?3)
	ON CONFLICT (key) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at`

// AddCount adds ?3 to the number of messages of the recipient ?1 in the state ?2.
const AddCount = `
	INSERT INTO message_count (recipient, state, n) VALUES (?1, ?2, ?3)
	` + AddToCount

// AddToCount is the end of an INSERT into message_count. It leaves numbers that are out of range, which somebody
// must have written by hand, as they are, because the sum might not be a number any more.
const AddToCount = `ON CONFLICT (recipient, state) DO UPDATE SET n = CASE WHEN message_count.n ` + Believed + `
	THEN message_count.n + excluded.n ELSE message_count.n END`
