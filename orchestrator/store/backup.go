package store

import (
	"errors"
	"strings"

	"mailroom/orchestrator"
)

// Backup is a copy of the database in one file.
type Backup struct {
	File     string
	Bytes    int64
	Messages int64 // in it, archived ones among them
}

// Outdated is something that a backup says and that is not true any more: it is ended in a copy of the backup, before
// that replaces the database.
type Outdated struct {
	Kind string // of what is counted, see Restored.Ended
	// Valid lists the ids of what is valid at the time ?1, in the backup and in the database; what is in the first list
	// alone has ended since. End ends at the time ?1 what has the id ?2. Without Valid it ends everything that there
	// is.
	Valid, End string
}

// InBackup is what a restore must know of the records in a backup.
type InBackup struct {
	Outdated []Outdated
	// Outside are queries, each of which lists what its records have the database do outside of itself, as sentences.
	Outside []string
}

// Compared says what a backup has and the database has not, and the other way round.
type Compared struct {
	Messages int64 // in the backup
	Missing  int64 // messages of the database that the backup has not, archived ones among both
	// what the backup does outside of itself and the database does not: commands, addresses, schedules
	Adds []string

	Undelivered int64 // messages of the database
}

// KeepsUndelivered returns why a database with so many undelivered messages is not replaced; nil for none.
func KeepsUndelivered(messages int64) error {
	if messages == 0 {
		return nil
	}
	return orchestrator.Errorf(orchestrator.Conflict, "the restore would replace %s in the database",
		orchestrator.Plural(int(messages), "undelivered message")).
		WithHint("Deliver these messages first, or repeat the command with --force. Before the restore, Mailroom saves the current database in the same folder")
}

// Restored is what a restore did.
type Restored struct {
	Compared
	Ended map[string]int64 // how much of each kind is valid in the backup, and no more now
	// Untrusted is why the database does nothing outside of itself from now on: the backup is of another one. "" if it
	// may.
	Untrusted string
	Previous  string // where the database as it was before has been saved; "" when it was empty
}

// NamePrevious returns the error of a restore with the place where the database as it was is saved.
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

// Checkpointed is what a checkpoint did.
type Checkpointed struct {
	WALBefore int64 // bytes
	WALAfter  int64
	Complete  bool // false: readers or writers were in the way; the next one goes on
}
