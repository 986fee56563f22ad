package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"mailroom"
	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// besides are the ends of the names of the files that SQLite keeps beside a database, and without which that is not whole: what was
// committed last stands in the -wal, and a -journal undoes what was not committed.
var besides = []string{"-wal", "-journal"}

// copyStill copies a database as it stands, byte for byte, with what stands beside it, and returns the names of the files that it took.
// SQLite never opens the source, and so changes nothing there. All is read twice: files that are the same both times were so together
// at the moment between. Error: conflict if they never are, since somebody writes them.
func copyStill(source, target string) (taken []string, err error) {
	for range 5 {
		var still bool
		if taken, still, err = copyOnce(source, target); still || err != nil {
			return taken, err
		}
	}
	return nil, orchestrator.Errorf(orchestrator.Conflict, "%s is being written", strings.Join(taken, ", with ")).
		WithHint("Make a backup of it with `mailroom --db %s backup FILE`, and restore that", orchestrator.ShellWord(source))
}

// copyOnce copies the files and compares them with their copies.
func copyOnce(source, target string) (taken []string, still bool, err error) {
	ends := append([]string{""}, besides...)
	for _, end := range ends {
		is, err := copyFile(source+end, target+end)
		if err != nil {
			return nil, false, err
		}
		if is {
			taken = append(taken, source+end)
		}
	}
	for _, end := range ends {
		if still, err = sameFile(source+end, target+end); err != nil || !still {
			return taken, false, err
		}
	}
	return taken, true, nil
}

// copyFile copies a file, and reports whether there was one. One that is not there has no copy either.
func copyFile(source, target string) (is bool, err error) {
	from, err := openSource(source)
	if from == nil {
		if rerr := os.Remove(target); err == nil && !errors.Is(rerr, fs.ErrNotExist) {
			err = rerr
		}
		return false, err
	}
	defer from.Close()
	to, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return false, fileError("the backup cannot be copied", err)
	}
	if _, err = io.Copy(to, from); err == nil {
		err = to.Sync()
	}
	if err = errors.Join(err, to.Close()); err != nil {
		return false, fileError("the backup cannot be copied", err)
	}
	return true, nil
}

// openSource opens a file to be copied; nil if there is none.
func openSource(path string) (*os.File, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err == nil && !info.Mode().IsRegular():
		return nil, orchestrator.Errorf(orchestrator.InvalidParams, "%s is not a regular file", path).WithHint("It belongs to the backup, which is not whole without it")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, &orchestrator.Error{Code: orchestrator.Unavailable, Message: path + " cannot be read", Err: err, Hint: "It belongs to the backup: check its permissions"}
	}
	return f, nil
}

// sameFile reports whether a file and its copy have the same content, or neither is there.
func sameFile(source, target string) (same bool, err error) {
	a, err := openSource(source)
	if err != nil {
		return false, err
	}
	if a == nil {
		_, err := os.Stat(target)
		return errors.Is(err, fs.ErrNotExist), nil
	}
	defer a.Close()
	b, err := openSource(target)
	if b == nil {
		return false, err
	}
	defer b.Close()
	one, other := make([]byte, 1<<20), make([]byte, 1<<20)
	for {
		n, errA := io.ReadFull(a, one)
		m, errB := io.ReadFull(b, other)
		if !bytes.Equal(one[:n], other[:m]) {
			return false, nil
		}
		if errA != nil || errB != nil {
			if errA == io.EOF || errA == io.ErrUnexpectedEOF {
				errA = nil
			}
			return errA == nil, errA
		}
	}
}

// ofOurTables returns what a new database has: the columns of its tables, and the definitions of all else, by name.
func ofOurTables(c *conn) (made map[string]string, columns map[string][]string, err error) {
	made, columns = map[string]string{}, map[string][]string{}
	err = c.Query(`SELECT type, name, coalesce(sql, '') FROM sqlite_schema WHERE name NOT LIKE 'sqlite\_%' ESCAPE '\'`, func(row store.Row) error {
		made[row.Text(1)] = row.Text(0) + " " + row.Text(2)
		return nil
	})
	for name, text := range made {
		if err == nil && strings.HasPrefix(text, "table ") {
			columns[name], err = c.Texts(`SELECT name FROM pragma_table_info(?)`, name)
		}
	}
	return made, columns, err
}

// fresh calls f with an empty database that has our tables.
func fresh(f func(c *conn) error) error {
	c, err := openConn(":memory:")
	if err != nil {
		return err
	}
	defer c.close()
	if err := c.Script(mailroom.Schema); err != nil {
		return err
	}
	return f(c)
}

// checkTables refuses a copy of the present version whose tables are not ours, though it is marked so. A table may have further columns.
// named is what the copy is called.
func checkTables(c *conn, named string) error {
	have, haveColumns, err := ofOurTables(c)
	if err != nil {
		return databaseError(named, err)
	}
	return fresh(func(ours *conn) error {
		made, columns, err := ofOurTables(ours)
		if err != nil {
			return err
		}
		wrong := ""
		for _, table := range slices.Sorted(maps.Keys(columns)) {
			for _, column := range columns[table] {
				if wrong == "" && !slices.Contains(haveColumns[table], column) {
					wrong = fmt.Sprintf("it has no table %s with a column %s", table, column)
				}
			}
		}
		for _, name := range slices.Sorted(maps.Keys(made)) {
			if wrong == "" && columns[name] == nil && have[name] != made[name] {
				kind, _, _ := strings.Cut(made[name], " ")
				wrong = fmt.Sprintf("its %s %s is missing, or another program's", kind, name)
			}
		}
		if wrong == "" {
			return nil
		}
		return orchestrator.Errorf(orchestrator.InvalidParams, "%s is no backup of a mailroom database: %s", named, wrong).
			WithHint("Name a file that `mailroom backup` has written")
	})
}

// foreignTables returns the tables, views and triggers of a database that are not Mailroom's, and their definitions, by name.
func foreignTables(c *conn) (foreign map[string]string, err error) {
	foreign = map[string]string{}
	err = c.Query(`SELECT name, sql FROM sqlite_schema WHERE type IN ('table', 'view', 'trigger') AND name NOT LIKE 'sqlite\_%' ESCAPE '\'
		AND NOT (type <> 'table' AND tbl_name LIKE '%\_inbox' ESCAPE '\' AND tbl_name <> 'agent_inbox')`, func(row store.Row) error {
		foreign[strings.ToLower(row.Text(0))] = row.Text(1)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, table := range store.WrittenByHand {
		for _, does := range closedTo {
			delete(foreign, table+"_closed_to_"+does)
		}
	}
	return foreign, fresh(func(ours *conn) error {
		made, _, err := ofOurTables(ours)
		for name := range made {
			delete(foreign, name)
		}
		return err
	})
}
