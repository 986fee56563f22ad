package store

// Backup is a copy of the database in one file.
type Backup struct {
	File     string
	Bytes    int64
	Messages int64 // rows of agent_message in it
}

// Outdated is something that a backup says and that is not true any more: it is ended in a copy of the backup, before that replaces
// the database.
type Outdated struct {
	Kind string // of what is counted, see Restored.Ended
	// Valid lists the ids of what is valid at the time ?1, in the backup and in the database; what is in the first list alone has
	// ended since. End ends at the time ?1 what has the id ?2. Without Valid it ends everything that there is.
	Valid, End string
}

// Restored is what a restore did.
type Restored struct {
	Messages int64            // rows of agent_message that the backup brought
	Ended    map[string]int64 // how much of each kind is valid in the backup, and no more now
	// Untrusted is why the database does nothing outside of itself from now on: the backup is of another one. "" if it may.
	Untrusted string
	Previous  string // where the database as it was before has been saved; "" when it was empty
}

// Checkpointed is what a checkpoint did.
type Checkpointed struct {
	WALBefore int64 // bytes
	WALAfter  int64
	Complete  bool // false: readers or writers were in the way; the next one goes on
}
