package store

import (
	"errors"
	"strings"

	"mailroom/orchestrator"
)

// Backup describes a copy of the database in one file.
type Backup struct {
	File     string
	Bytes    int64
	Messages int64 // including archived ones
}

// Outdated describes records of a backup that may no longer be true. A restore ends these records in a copy of the
// backup before that copy replaces the database.
type Outdated struct {
	Kind string // of the counted records, see Restored.Ended
	// Valid is a query for the ids of the records that are valid at the time ?1. It runs on the backup and on the
	// database; an id that only the backup returns has ended since. End is a statement that ends the record with the
	// id ?2 at the time ?1. If Valid is empty, End ends all records of this kind.
	Valid, End string
}

// InBackup describes the records of a backup that a restore must handle.
type InBackup struct {
	Outdated []Outdated
	// Outside holds queries. Each returns sentences that describe what its records make the database do outside of
	// itself.
	Outside []string
}

// Compared is the comparison of a backup with the database.
type Compared struct {
	Messages int64 // in the backup
	Missing  int64 // messages of the database that are not in the backup; archived messages of both are compared, too
	// Adds lists what the backup does outside of itself and the database does not: commands, addresses, schedules.
	Adds []string

	Undelivered int64 // messages of the database
}

// KeepsUndelivered returns an error if the database has undelivered messages, since a restore would replace them.
func KeepsUndelivered(messages int64) error {
	if messages == 0 {
		return nil
	}
	return orchestrator.Errorf(orchestrator.Conflict, "the restore would replace %s in the database",
		orchestrator.Plural(int(messages), "undelivered message")).
		WithHint("Deliver these messages first, or repeat the command with --force. Before the restore, Mailroom saves the current database in the same folder")
}

// Restored is the result of a restore.
type Restored struct {
	Compared
	Ended map[string]int64 // by kind, the number of records that are valid in the backup but not any more
	// Untrusted is the reason why the database does nothing outside of itself from now on: the backup is from
	// another database. It is "" if the database may act.
	Untrusted string
	Previous  string // path of the copy of the previous database; "" if that database was empty
}

// NamePrevious adds to the error of a restore the path of the copy of the previous database.
func (r *Restored) NamePrevious(err error) error {
	if err == nil || r.Previous == "" {
		return err
	}
	named := &orchestrator.Error{Code: orchestrator.CodeOf(err), Message: "the restore did not finish", Err: err}
	if own, ok := errors.AsType[*orchestrator.Error](err); ok {
		*named = *own
	}
	named.Hint = strings.TrimPrefix(strings.TrimSuffix(named.Hint, ".")+". The previous database is saved in "+
		r.Previous, ". ")
	return named
}

// Checkpointed is the result of a checkpoint.
type Checkpointed struct {
	WALBefore int64 // bytes
	WALAfter  int64
	Complete  bool // false: readers or writers blocked it; the next checkpoint continues
}
