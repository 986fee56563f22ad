package store

import "mailroom/orchestrator"

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
	// Untrusted is why the database does nothing outside of itself from now on, since the backup is of another; "" is that it does.
	Untrusted string
	Previous  string // where the database as it was before has been saved; "" when it was empty
}

// Checkpointed is what a checkpoint did.
type Checkpointed struct {
	WALBefore int64 // bytes
	WALAfter  int64
	Complete  bool // false: readers or writers were in the way; the next one goes on
}

// Table is the answer of an audit query.
type Table struct {
	Columns   []string
	Rows      []Record
	Truncated bool // there were more rows than asked for
}

// Record is one row of a Table. It marshals as a JSON object whose keys are the columns, in their order.
type Record struct {
	Columns []string
	Values  []any // nil, int64, float64, string
}

// MarshalJSON keeps the order of the columns.
func (row Record) MarshalJSON() ([]byte, error) {
	text := []byte{'{'}
	for i, column := range row.Columns {
		if i > 0 {
			text = append(text, ',')
		}
		value, err := orchestrator.JSON(row.Values[i])
		if err != nil {
			return nil, err
		}
		text = append(append(append(text, orchestrator.JSONString(column)...), ':'), value...)
	}
	return append(text, '}'), nil
}
