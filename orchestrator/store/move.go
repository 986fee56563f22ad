package store

import (
	"errors"
	"iter"
	"slices"
	"strings"
)

// The rows of settings that a move from one place to another leaves. A database that has one of them is read, and not written.
const (
	// MovedTo is the address to which the database has moved. The one that has it is what was left behind.
	MovedTo = "moved_to"
	// MovingFrom says from where a database is moving in. The one that has it is not whole, or what it comes from can be written still.
	MovingFrom = "moving_from"
)

// The rows of settings that belong to a place, and do not move: those of this prefix, and these.
const ownPrefix = "schema."

var ownSettings = []string{DatabaseID, ConfigVersion, MovedTo, MovingFrom}

// OwnSetting is the condition for these rows.
var OwnSetting = `(key LIKE '` + ownPrefix + `%' OR key IN ('` + strings.Join(ownSettings, `', '`) + `'))`

// IsOwnSetting reports whether the row of a key is one of them.
func IsOwnSetting(key string) bool {
	return strings.HasPrefix(key, ownPrefix) || slices.Contains(ownSettings, key)
}

// ErrMoved is the cause of an error about a database that has moved, or is moving in. It is an ErrOutdated, too: whoever has
// the database open must end.
var ErrMoved error = moved{errors.New("the database has moved")}

type moved struct{ error }

func (moved) Is(target error) bool { return target == ErrOutdated }

// MovedTable is a table of a database that moves.
type MovedTable struct {
	Name    string
	Columns []MovedColumn // without those that only this kind of database has
	Ordered bool          // Each goes through its rows in the order in which they were inserted
}

// ColumnList returns the names of the columns as a statement lists them.
func (t MovedTable) ColumnList() string {
	names := make([]string, len(t.Columns))
	for i, column := range t.Columns {
		names[i] = `"` + column.Name + `"`
	}
	return strings.Join(names, ", ")
}

// MovedColumn is a column of such a table.
type MovedColumn struct {
	Name   string
	Number bool // it holds integers and nothing else; any other holds text
	Never  bool // it holds no NULL
}

// Mover is a Driver whose database can move to another place. All but Tables is called in a transaction that is alone.
type Mover interface {
	// HoldStill keeps out those, too, who write by hand, and lets the transaction do nothing for a long time.
	HoldStill() error
	// Tables lists the tables that there are.
	Tables() ([]MovedTable, error)
	// Each calls each with every row of a table. The values are only valid during the call.
	Each(t MovedTable, each func(row Row) error) error
	// Fill adds rows to a table, and returns the first error among them.
	Fill(t MovedTable, rows iter.Seq2[Row, error]) error
	// Numbers returns the last number that was given to a row, by table.
	Numbers() (map[string]int64, error)
	// Filled is called once all tables are filled. The next row of a table gets a number behind its last one, and those that are there.
	Filled(last map[string]int64) error
	// MakeInboxView makes the view of an agent's inbox, once all tables are filled.
	MakeInboxView(agent, at string) error
	// Leave keeps out older programs, which do not know MovedTo.
	Leave() error
	// ManyHosts reports whether several machines can use the database.
	ManyHosts() bool
}
