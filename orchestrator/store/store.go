// Package store is the boundary between the engine and its database.
package store

import (
	"context"
	"errors"
	"math"
	"time"

	"mailroom/orchestrator"
)

// ErrOutdated is the cause of an error about a database whose tables a newer mailroom has changed so much that this
// program may not use it any more, also if that happened while it had it open. Nothing was read or written.
var ErrOutdated = errors.New("a newer Mailroom has changed the tables")

// Store is an open database. It is safe for concurrent use.
type Store interface {
	// Write does the work of a request in a write transaction and returns when that is on the disk, see Writer.
	Write(q *Request) error
	// Read calls fn with a connection whose statements all see the same state of the database. fn must not keep the
	// connection, must not write to a slow client while it has it, and must not read through the store: all places to
	// read could be taken by readers that wait for another. It may run more than once, where the connection to a server
	// is lost: it sets what it hands out, and never adds to it. Error: busy when ctx ends before there is a place.
	Read(ctx context.Context, fn func(c *Conn) error) error
	// Look is Read without a snapshot: fn runs one statement, or several that need not see the same state.
	Look(ctx context.Context, fn func(c *Conn) error) error
	// Explain gives an error of the database its code and the advice what to do. Others pass through.
	Explain(err error) error
	// Path names the database, for people and for other processes that are to open it.
	Path() string
	// FilePrefix is what the paths of this machine's files that belong to the database begin with: locks of its agents'
	// commands, and keys that must not be in it. Where there is no place for them, nothing can be made there.
	FilePrefix() string
	// Bell wakes those who wait for what others write.
	Bell() orchestrator.Bell
	// Token makes the token of a lease of this process out of an id; Gone reports whether the process that made a token
	// is known to be dead.
	Token(id string) string
	Gone(token string) bool
	// Alive returns a context that ends when Gone may soon be true of this process though it lives: it has lost the
	// database, and looks to others as if its host were dead. Work under a lease must end then, since others will do
	// it.
	Alive() context.Context
	// Create makes the database if it is not there yet, and reports whether it did. It makes none where there was one
	// before.
	Create() (created bool, err error)
	// Exists reports whether there is a database. NoneYet reports whether there is none, and nothing shows that there
	// was one.
	Exists() bool
	NoneYet() bool
	// Ready reports whether the database can be read and written now. Errors: busy, unavailable.
	Ready(ctx context.Context) error
	// Size returns the bytes that the database takes on disk, and those of them that a checkpoint folds; 0 if that is
	// not known.
	Size() (all, log int64)
	Close() error
}

// What only some databases can do. A store that can has these methods, too.
type (
	// Backuper copies the database into a file and back.
	Backuper interface {
		Backup(ctx context.Context, file string, overwrite bool) (Backup, error)
		Restore(ctx context.Context, file string, force bool, parts InBackup) (Restored, error)
		Compare(ctx context.Context, file string, outside []string) (Compared, error) // what a restore would bring and take
	}
	// Console answers queries that are written by hand.
	Console interface {
		Query(ctx context.Context, statement string, bound Bound, params ...any) (Table, error)
	}
	// Central is on a server. Many hosts use it, and go by its time.
	Central interface {
		Now() time.Time
		Place() string // its servers, database and schema, the same for whoever uses it and however
		Settled(ctx context.Context) (Settled, error)
		// Enters returns why the server refuses a program that gets the address without its password, and no
		// PGPASSWORD.
		Enters(ctx context.Context) error
		// LockedBy names the sessions of other programs that may have locked rows of messages.
		LockedBy(c *Conn) ([]string, error)
	}
	// Versioned tells cheaply whether anything was committed: version has changed then, if it is known both times. It is
	// safe for concurrent use.
	Versioned interface {
		Version() (version int64, known bool)
	}
	// Observer reports which tables the statements of this process touch.
	Observer interface {
		Watch(report func(op, table string)) (stop func())
	}
	// Shrinker gives back the space that is free.
	Shrinker interface {
		Shrink(ctx context.Context) error
		Checkpoint(truncate bool, limit int64) (Checkpointed, error)
	}
	// Checker looks for what an operator should know of the database itself.
	Checker interface {
		CheckPlace(ctx context.Context, report Report)              // where it is, if there is one
		CheckLock(ctx context.Context, report Report) (locked bool) // whether nobody can write it now
	}
	// FileChecker looks after a database that is a file of this machine.
	FileChecker interface {
		CheckTables(c *Conn, all bool, report Report) error // how its log is, and whether all of it is whole
		CheckCopies(folders []string, report Report)        // what killed backups left there
		Recovery(err error) string                          // how to get past damage; "" for any other error
	}
)

// Settled says up to which ids the traces are complete: no transaction can add a row there any more. Where several
// write at the same time, one may commit after another that got larger ids, and whoever followed the ids alone would
// never see its rows.
type Settled struct {
	Events, Commands int64  // ids of message_trace and of command_trace
	Dense            bool   // an id that is not there was deleted; otherwise its transaction may have been undone
	Holder           string // the transaction that keeps larger ids from being settled; "" is none
}

// SettledIn says up to which ids the traces of a store are complete. Whoever follows one asks before the snapshot in
// which he reads its rows. Where one transaction writes at a time, all that can be seen is settled.
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

// Report takes a finding of a check, with its level; do is what to do about it.
type Report func(check, level, says, do string)

// Able returns a store as one of the above. Error: unavailable, for a database that cannot do it.
func Able[T any](s Store, what string) (T, error) {
	can, ok := s.(T)
	if !ok {
		return can, orchestrator.Errorf(orchestrator.Unavailable, "this kind of database does not support %s",
			what).WithHint("Use a tool for the database server, such as pg_dump")
	}
	return can, nil
}

// Prepared is called with the text of each statement that a connection prepares, by whatever goroutine does; nil is
// nobody. Tests set it, to hold the statements to other databases.
var Prepared func(text string)

// ConfigVersion is the row of settings whose value changes whenever agents, groups or settings do.
const ConfigVersion = "config.version"

// DatabaseID is the row of settings that tells databases apart. Copies have the same, wherever they are.
const DatabaseID = "database.id"

// StoreSetting sets the row ?1 of settings to ?2, at ?3.
const StoreSetting = `
	INSERT INTO settings (key, value, updated_at) VALUES (?1, ?2, ?3)
	ON CONFLICT (key) DO UPDATE SET value = excluded.value, updated_at = excluded.updated_at`

// AddCount adds ?3 to the count of messages of the recipient ?1 in the state ?2.
const AddCount = `
	INSERT INTO message_count (recipient, state, n) VALUES (?1, ?2, ?3)
	` + AddToCount

// AddToCount ends an INSERT into message_count. What somebody has written there that is out of range stays as it is: a
// sum might be no number any more.
const AddToCount = `ON CONFLICT (recipient, state) DO UPDATE SET n = CASE WHEN message_count.n ` + Believed + `
	THEN message_count.n + excluded.n ELSE message_count.n END`
