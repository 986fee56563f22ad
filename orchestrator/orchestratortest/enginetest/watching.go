package enginetest

import (
	"database/sql"
	"fmt"
	"strings"
)

// Jam blocks all writes to the database file until release is called, as a program does that holds its lock.
func (f *Fixture) Jam() (release func()) {
	f.T.Helper()
	db := f.oneConnection()
	f.exec(db, `BEGIN IMMEDIATE`)
	return func() { f.T.Helper(); f.exec(db, `ROLLBACK`) }
}

// Version returns a function that returns the version of the data, which differs after each change.
func (f *Fixture) Version() func() string {
	f.T.Helper()
	db := f.oneConnection()
	query := `PRAGMA data_version`
	if f.OnServer() {
		var each []string
		for _, table := range f.tables(db) {
			// a written row has the number of its transaction, and a deleted row changes the count
			each = append(each,
				`SELECT '`+table+`' || count(*) || ' ' || coalesce(max(xmin::text::bigint), 0) AS state FROM `+table)
		}
		query = `SELECT string_agg(state, ',' ORDER BY state) FROM (` + strings.Join(each, ` UNION ALL `) + `) AS each`
	}
	return func() (version string) {
		f.T.Helper()
		if err := db.QueryRow(query).Scan(&version); err != nil {
			f.T.Fatal(err)
		}
		return version
	}
}

// oneConnection opens the database with a single connection.
func (f *Fixture) oneConnection() *sql.DB {
	db := Plain(f.T, f.Path)
	db.SetMaxOpenConns(1)
	return db
}

// tables lists the tables of a database on a server.
func (f *Fixture) tables(db *sql.DB) (names []string) {
	f.T.Helper()
	rows, err := db.Query(`SELECT table_name::text FROM information_schema.tables WHERE table_schema = current_schema()
		AND table_type = 'BASE TABLE'
		AND table_name <> 'pulse'`) // which changes by itself
	if err != nil {
		f.T.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		names = append(names, "")
		if err := rows.Scan(&names[len(names)-1]); err != nil {
			f.T.Fatal(err)
		}
	}
	return names
}

func (f *Fixture) exec(db *sql.DB, statement string) {
	f.T.Helper()
	if _, err := db.Exec(statement); err != nil {
		f.T.Fatal(fmt.Errorf("%s: %w", statement, err))
	}
}
