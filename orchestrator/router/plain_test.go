package router_test

import (
	"database/sql"
	"net/url"
	"testing"

	_ "github.com/mattn/go-sqlite3"
)

// openPlain opens the database the way a program does that only knows SQLite.
func openPlain(t testing.TB, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite3", "file:"+(&url.URL{Path: path}).EscapedPath()+"?_busy_timeout=10000")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}
