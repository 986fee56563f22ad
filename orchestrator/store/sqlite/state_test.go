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

// helpPlain runs the statements that it is told in a database that is open in it alone.
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

// TestState: the state of a database is another one after each commit of another process, whether the database is open
// somewhere or not, and after no reading; and where it cannot be told, it is not known.
func TestState(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.db")
	seen := map[string]bool{}
	state := func(isNew bool) {
		t.Helper()
		past := time.Now().Add(-time.Hour - time.Duration(len(seen))*time.Minute) // written a while ago, as each time another one
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
