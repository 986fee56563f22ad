package copies

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// definitions holds the definitions in a database, by name: for each table, view, trigger and index its kind and the
// statement that created it, and for each table its columns.
type definitions struct {
	made    map[string]string
	columns map[string][]string
}

func definitionsIn(c *store.Conn) (d definitions, err error) {
	d = definitions{map[string]string{}, map[string][]string{}}
	err = c.Query(`SELECT type, lower(name), coalesce(sql, '') FROM sqlite_schema
		WHERE name NOT LIKE 'sqlite\_%' ESCAPE '\'`, func(row store.Row) error {
		d.made[row.Text(1)] = row.Text(0) + " " + row.Text(2)
		return nil
	})
	for name, text := range d.made {
		if err == nil && strings.HasPrefix(text, "table ") {
			d.columns[name], err = c.Texts(`SELECT lower(name) FROM pragma_table_info(?)`, name)
		}
	}
	return d, err
}

// Check refuses a database of the current version whose tables differ from those of ours, a new database. Tables may
// have additional columns. named is the name of the database in the error, which is invalid_params.
func Check(c, ours *store.Conn, named string) error {
	have, err := definitionsIn(c)
	if err != nil {
		return err
	}
	want, err := definitionsIn(ours)
	if err != nil {
		return err
	}
	wrong := ""
	for _, table := range slices.Sorted(maps.Keys(want.columns)) {
		for _, column := range want.columns[table] {
			if wrong == "" && !slices.Contains(have.columns[table], column) {
				wrong = fmt.Sprintf("the file has no table %s with a column %s", table, column)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want.made)) {
		if wrong == "" && want.columns[name] == nil && have.made[name] != want.made[name] {
			kind, _, _ := strings.Cut(want.made[name], " ")
			wrong = fmt.Sprintf("the %s %s is missing or belongs to another program", kind, name)
		}
	}
	if wrong == "" {
		return nil
	}
	return orchestrator.Errorf(orchestrator.InvalidParams, "%s is not a backup of a Mailroom database: %s", named, wrong).
		WithHint("Specify a file that `mailroom backup` created")
}

// Foreign returns the tables, views and triggers of a database that do not belong to Mailroom, and their
// definitions, by name. ours is a new database.
func Foreign(c, ours *store.Conn) (foreign map[string]string, err error) {
	foreign = map[string]string{}
	err = c.Query(`SELECT lower(name), sql FROM sqlite_schema WHERE type IN ('table', 'view', 'trigger')
		AND name NOT LIKE 'sqlite\_%' ESCAPE '\'
		AND NOT (type <> 'table' AND tbl_name LIKE '%\_inbox' ESCAPE '\' AND tbl_name <> 'agent_inbox')`,
		func(row store.Row) error {
			foreign[row.Text(0)] = row.Text(1)
			return nil
		})
	if err != nil {
		return nil, err
	}
	want, err := definitionsIn(ours)
	maps.DeleteFunc(foreign, func(name, _ string) bool {
		return want.made[name] != "" ||
			slices.ContainsFunc(store.WrittenByHand,
				func(table string) bool { return strings.HasPrefix(name, table+"_closed_to_") })
	})
	return foreign, err
}

// MayReplace refuses to replace a database with a copy of a backup if tables of another program would be lost or
// added. A backup of the same database has the same foreign tables; they are compared by definition. The error is
// conflict.
func MayReplace(present, backup, ours *store.Conn) error {
	have, err := Foreign(present, ours)
	if err != nil {
		return err
	}
	brought, err := Foreign(backup, ours)
	if err != nil {
		return err
	}
	refuse := func(says string, of, but map[string]string) error {
		for _, name := range slices.Sorted(maps.Keys(of)) {
			if but[name] != of[name] {
				return orchestrator.Errorf(orchestrator.Conflict, says, name).
					WithHint("Restore the backup into a separate file: `mailroom --db OTHER.db restore BACKUP`")
			}
		}
		return nil
	}
	if err := refuse("the database has tables of another program, such as %s, that are not in the backup and would be lost", have, brought); err != nil {
		return err
	}
	return refuse("the backup has tables or triggers of another program, such as %s, that are not in the database", brought, have)
}

// CountMessages counts the messages of a database, including archived ones.
const CountMessages = `SELECT (SELECT count(*) FROM agent_message) + (SELECT count(*) FROM agent_message_archive)`

// Compare counts the messages of a backup, and the messages of the current database that are missing in the backup.
// It also lists the results of the outside queries that only the backup returns. present is nil if there is no
// database.
func Compare(present, backup *store.Conn, outside []string) (found store.Compared, err error) {
	if found.Messages, err = backup.Number(CountMessages); err != nil {
		return found, err
	}
	there := map[string]bool{}
	if present != nil {
		if found.Missing, err = missing(present, backup); err != nil {
			return found, err
		}
		for _, query := range outside {
			// Tables of an earlier version may lack a column of the query. The query then has no results.
			list, _ := present.Texts(query)
			for _, does := range list {
				there[does] = true
			}
		}
	}
	for _, query := range outside {
		list, err := backup.Texts(query)
		if err != nil {
			return found, err
		}
		found.Adds = append(found.Adds, slices.DeleteFunc(list, func(does string) bool { return there[does] })...)
	}
	return found, nil
}

// missing counts the messages of a database that are not in another, including archived ones of both.
func missing(present, backup *store.Conn) (n int64, err error) {
	for _, table := range []string{"agent_message", "agent_message_archive"} {
		err := present.Query(`SELECT message_id FROM `+table, func(row store.Row) error {
			is, err := backup.Number(`SELECT EXISTS (SELECT 1 FROM agent_message WHERE message_id = ?1)
				OR EXISTS (SELECT 1 FROM agent_message_archive WHERE message_id = ?1)`, row.Text(0))
			n += 1 - is
			return err
		})
		if err != nil {
			return 0, err
		}
	}
	return n, nil
}
