package store

import "mailroom/orchestrator"

// Backup is a copy of the database in one file.
type Backup struct {
	File     string
	Bytes    int64
	Messages int64 // rows of agent_message in it
}

// Restored is what a restore did.
type Restored struct {
	Messages int64 // rows of agent_message that the backup brought
	Revoked  int64 // tokens that are valid in the backup, and now no more
	Devices  int64 // devices that are let in by the backup, and now no more
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
