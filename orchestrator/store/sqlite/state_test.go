package sqlite

import (
	"bufio"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"mailroom/orchestrator/orchestratortest/helper"
)

// helpPlain runs the statements that it reads in a database that no other process has open.
func helpPlain(path string, in *bufio.Scanner) {
	db, err := sql.Open("sqlite3", path)
	if err != nil {
		panic(err)
	}
	db.SetMaxOpenConns(1)
	for fmt.Println("ready"); in.Scan() && in.Text() != "close"; fmt.Println("done") {
		if _, err := db.Exec(in.Text()); err != nil {
			panic(err)
		}
	}
	db.Close()
}

// TestState checks that the state of a database changes with each commit of another process, whether the database is
// open somewhere or not, and that it does not change with reads. If the state cannot be determined, it is not known.
func TestState(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	seen := map[string]bool{}
	state := func(isNew bool) {
		t.Helper()
		// The file was written a while ago, at a different time each time.
		past := time.Now().Add(-time.Hour - time.Duration(len(seen))*time.Minute)
		if info, err := os.Stat(path); err == nil && time.Since(info.ModTime()) < justNow {
			if err := os.Chtimes(path, past, past); err != nil {
				t.Fatal(err)
			}
		}
		state, known := State(path)
		if !known || seen[state] == isNew {
			t.Errorf("state %q, known %t, seen before %t; want new %t", state, known, seen[state], isNew)
		}
		seen[state] = true
	}
	if state, known := State(path); known {
		t.Errorf("of no file: %q", state)
	}
	for range 3 {
		p := helper.Start(t, "plain", path)
		p.Expect("ready")
		do := func(statement string) {
			t.Helper()
			p.Say(statement)
			p.Expect("done")
		}
		do("PRAGMA journal_mode = wal")
		do("CREATE TABLE IF NOT EXISTS t (x)")
		do("INSERT INTO t VALUES (1)")
		if _, known := State(path); known && len(seen) == 0 {
			t.Error("the file was written just now, and may be written again within the same time")
		}
		state(true)
		do("SELECT count(*) FROM t")
		state(false)
		for range 3 {
			do("INSERT INTO t VALUES (1)")
			state(true)
			do("PRAGMA wal_checkpoint(TRUNCATE)")
			do("UPDATE t SET x = x + 1")
			state(true)
			do("SELECT count(*) FROM t")
			state(false)
		}
		p.Say("close")
		p.Wait()
		state(true) // the log was folded into the file
		state(false)
	}
}
