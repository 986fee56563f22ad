package store

import (
	"errors"
	"iter"
	"slices"
	"strings"

	"mailroom/orchestrator"
)

// The rows of settings that a move from one place to another leaves. A database that has one of them is read, and not
// written.
const (
	// MovedTo is the address to which the database has moved. The one that has it is what was left behind.
	MovedTo = "moved_to"
	// MovingFrom says from where a database is moving in. The one that has it is not whole, or what it comes from can
	// be written still.
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

// ErrMoved is the cause of an error about a database that has moved, or is moving in. It is an ErrOutdated, too:
// whoever has the database open must end.
var ErrMoved error = moved{errors.New("the database has moved")}

type moved struct{ error }

func (moved) Is(target error) bool { return target == ErrOutdated }

// Closed refuses to write the database of a path if its settings say that it has moved to another place, or is still
// moving in.
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

// WrittenByHand are the tables that programs write which know nothing of mailroom.
var WrittenByHand = []string{"agent_message", "agent_inbox"}

// ClosedByHand is what such a program is told by a database that is Closed, "" by any other.
func ClosedByHand(settings map[string]string) string {
	if to := settings[MovedTo]; to != "" {
		return "this database has moved to " + to + "; nothing was written. Write to the new database"
	}
	if settings[MovingFrom] != "" {
		return "another database is being moved into this database; nothing was written. Until the move is finished, write to the old database"
	}
	return ""
}

// MoveSettings returns the rows of settings by which a database is Closed.
func MoveSettings(c *Conn) (map[string]string, error) {
	settings := map[string]string{}
	err := c.Query(`SELECT key, value FROM settings WHERE key IN ('`+MovedTo+`', '`+MovingFrom+`')`,
		func(row Row) error {
			settings[row.Text(0)] = row.Text(1)
			return nil
		})
	return settings, err
}

// MovedTable is a table of a database that moves.
type MovedTable struct {
	Name    string
	Columns []MovedColumn // without those that only this kind of database has
	Foreign bool          // another program's
	Ordered bool          // Each goes through its rows in the order in which they were inserted
	Keys    [][]string    // the columns that no two rows may have the same values in, but for those that number them
}

// TablesMade returns the names of the tables that a script makes. In it each begins a line, and its name can stand in
// SQL as it is.
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
	// HoldStill keeps out those, too, who write by hand, and lets the transaction do nothing for a long time. Return
	// its error from the transaction: when that is run again, it is called with again, and waits longer for them.
	HoldStill(again bool) error
	// Tables lists the tables that there are. The methods that take one are for those that are not Foreign.
	Tables() ([]MovedTable, error)
	// Each calls each with every row of a table. The values are only valid during the call.
	Each(t MovedTable, each func(row Row) error) error
	// Fill adds rows to a table, and returns the first error among them.
	Fill(t MovedTable, rows iter.Seq2[Row, error]) error
	// Numbers returns the last number that was given to a row, by table.
	Numbers() (map[string]int64, error)
	// Filled is called once all tables are filled. The next row of a table gets a number behind its last one, and those
	// that are there.
	Filled(last map[string]int64) error
	// InboxViews returns the agents that have a view of their inbox.
	InboxViews() ([]string, error)
	// MakeInboxView makes the view of an agent's inbox, once all tables are filled.
	MakeInboxView(agent, at string) error
	// Shut keeps out of a database that is Closed who knows nothing of that: programs that write its messages by hand,
	// and older ones. It lets them into any other.
	Shut() error
}
