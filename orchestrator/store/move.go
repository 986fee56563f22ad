package store

import (
	"errors"
	"iter"
	"slices"
	"strings"

	"mailroom/orchestrator"
)

// The rows of settings that a move from one place to another leaves behind. A database with one of these rows can be
// read but not written.
const (
	// MovedTo holds the address to which the database has moved. The old database has this row.
	MovedTo = "moved_to"
	// MovingFrom holds the address of the database that is being moved here. A database with this row is incomplete,
	// or the old database can still be written.
	MovingFrom = "moving_from"
)

// Some rows of settings belong to a place and do not move: those with this prefix, and those in ownSettings.
const ownPrefix = "schema."

var ownSettings = []string{DatabaseID, ConfigVersion, MovedTo, MovingFrom}

// OwnSetting is the SQL condition for rows of settings that belong to a place.
var OwnSetting = `(key LIKE '` + ownPrefix + `%' OR key IN ('` + strings.Join(ownSettings, `', '`) + `'))`

// IsOwnSetting reports whether the row of settings with this key belongs to a place.
func IsOwnSetting(key string) bool {
	return strings.HasPrefix(key, ownPrefix) || slices.Contains(ownSettings, key)
}

// ErrMoved is the cause of an error about a database that has moved, or that is being moved in. It also matches
// ErrOutdated, because a program that has the database open must end.
var ErrMoved error = moved{errors.New("the database has moved")}

type moved struct{ error }

func (moved) Is(target error) bool { return target == ErrOutdated }

// Closed returns an error if the settings of the database at path show that it has moved to another place, or that a
// move into it has not finished. Such a database must not be written.
func Closed(path string, settings map[string]string) error {
	if to := settings[MovedTo]; to != "" {
		return &orchestrator.Error{Code: orchestrator.Unavailable, Err: ErrMoved,
			Message: "the database " + path + " has moved to " + to + "; nothing was written",
			Hint:    "Use the new database from now on, and restart the programs that have the old database open. To move the database back, run `mailroom migrate` with a location that has a different name"}
	}
	if settings[MovingFrom] != "" {
		return &orchestrator.Error{Code: orchestrator.Unavailable, Err: ErrMoved,
			Message: "nothing was written: a database is being moved to " + path,
			Hint:    "If `mailroom migrate` was interrupted, run it again. Until the move is finished, use the old database"}
	}
	return nil
}

// WrittenByHand lists the tables that other programs write with SQL of their own, without this program.
var WrittenByHand = []string{"agent_message", "agent_inbox"}

// ClosedByHand returns the error message for such a program if the database is closed, and "" otherwise.
func ClosedByHand(settings map[string]string) string {
	if to := settings[MovedTo]; to != "" {
		return "this database has moved to " + to + "; nothing was written. Write to the new database"
	}
	if settings[MovingFrom] != "" {
		return "another database is being moved into this database; nothing was written. Until the move is finished, write to the old database"
	}
	return ""
}

// MoveSettings returns the rows of settings that Closed examines.
func MoveSettings(c *Conn) (map[string]string, error) {
	settings := map[string]string{}
	err := c.Query(`SELECT key, value FROM settings WHERE key IN ('`+MovedTo+`', '`+MovingFrom+`')`,
		func(row Row) error {
			settings[row.Text(0)] = row.Text(1)
			return nil
		})
	return settings, err
}

// MovedTable describes a table of a database that moves.
type MovedTable struct {
	Name    string
	Columns []MovedColumn // without the columns that exist only in this kind of database
	Foreign bool          // the table belongs to another program
	Ordered bool          // Each returns the rows in the order in which they were inserted
	Keys    [][]string    // sets of columns whose values are unique together, except for keys that number the rows
}

// TablesMade returns the names of the tables that a script creates. Each CREATE TABLE must begin a line, and its
// name must need no quotes.
func TablesMade(script string) map[string]bool {
	made := map[string]bool{}
	for line := range strings.Lines(script) {
		if rest, found := strings.CutPrefix(line, "CREATE TABLE "); found {
			name, _, _ := strings.Cut(rest, " ")
			made[name] = true
		}
	}
	return made
}

// ColumnList returns the names of the columns, quoted and separated by commas.
func (t MovedTable) ColumnList() string {
	names := make([]string, len(t.Columns))
	for i, column := range t.Columns {
		names[i] = `"` + column.Name + `"`
	}
	return strings.Join(names, ", ")
}

// MovedColumn describes a column of a MovedTable.
type MovedColumn struct {
	Name   string
	Number bool // it holds only integers; other columns hold text
	Never  bool // it never holds NULL
}

// Mover is a Driver whose database can move to another place. All methods except Tables are called in a transaction
// whose scope is Alone.
type Mover interface {
	// HoldStill also keeps out programs that write by hand, and allows the transaction to be idle for a long time.
	// The transaction must return the error of HoldStill. When the transaction runs again, again is true and
	// HoldStill waits longer for these programs.
	HoldStill(again bool) error
	// Tables lists the existing tables. The methods that take a table accept only tables that are not Foreign.
	Tables() ([]MovedTable, error)
	// Each calls each with every row of a table. The values are valid only during the call.
	Each(t MovedTable, each func(row Row) error) error
	// Fill adds rows to a table. It returns the first error, including the errors in rows.
	Fill(t MovedTable, rows iter.Seq2[Row, error]) error
	// Numbers returns, by table, the last number that was given to a row.
	Numbers() (map[string]int64, error)
	// Filled is called after all tables are filled. It makes the next row of each table get a number after the last
	// number given to a row and after the numbers of the existing rows.
	Filled(last map[string]int64) error
	// InboxViews returns the agents that have an inbox view.
	InboxViews() ([]string, error)
	// MakeInboxView creates the inbox view of an agent. It is called after all tables are filled.
	MakeInboxView(agent, at string) error
	// Shut locks programs that do not check for Closed out of a closed database: older versions of this program, and
	// programs that write messages by hand. If the database is not closed, Shut lets these programs in.
	Shut() error
}
