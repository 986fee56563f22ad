package move_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/move"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/router"
	"mailroom/orchestrator/store/postgres"
	"mailroom/orchestrator/store/postgres/postgrestest"
)

// TestMeetsWhoWritesByHand checks a move against a program that writes by hand, through the table and through a view
// in one transaction. The move waits for the program's lock, and then the program waits for the move. Both finish,
// whichever of them waits first and however long.
func TestMeetsWhoWritesByHand(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t, "-c deadlock_timeout=2s")
	for _, waited := range []string{"0 s", "2.2 s"} { // after 2 s the server checks whether the move is in a deadlock
		from, to := postgrestest.Place(server), filepath.Join(t.TempDir(), "to.db")
		scene(t, from)
		old, err := router.Open(t.Context(), ledger.Options{Path: from, BusyTimeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { old.Close() })
		now, s := mustOpen(t, to), postgrestest.Connect(t, from)
		enginetest.Miscounts(from)
		if _, _, err := agents.Add(t.Context(), old.Ledger, agents.Update{Name: "b", InboxView: new(true)}); err != nil {
			t.Fatal(err)
		}
		s.Run(`BEGIN; INSERT INTO agent_message (message_id, sender, recipient, payload) VALUES ('by hand', 'a', 'b', '1')`)
		moved := make(chan error)
		go func() {
			_, err := move.Run(t.Context(), old.Ledger, now.Ledger, nil)
			moved <- err
		}()
		until(t, from, `SELECT 1 FROM pg_locks WHERE locktype = 'relation' AND NOT granted
			AND waitstart <= clock_timestamp() - interval '`+waited+`'`)
		s.Run(`INSERT INTO b_inbox (message_id, payload) VALUES ('by hand, too', '1'); COMMIT`)
		if err := <-moved; err != nil {
			t.Error(err)
		}
		want.Equal(t, "messages", count(t, now), messagesAtFirst+1)
	}
}

// until repeats a query on a server until it returns a row.
func until(t *testing.T, address, query string) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	for ctx.Err() == nil {
		if rows, err := postgrestest.SQL(ctx, address, query); err == nil && len(rows) > 0 {
			return
		}
	}
	t.Fatalf("it never became so: %s", query)
}

// TestForeignTables checks that a move does not wait for tables of other programs, and does not change them at either
// place, even if they have the same name.
func TestForeignTables(t *testing.T) {
	t.Parallel()
	const foreign = `other's "notes"`
	directions(t, func(t *testing.T, place func(int) (string, string)) {
		from, to := place(0)
		scene(t, from)
		now := mustOpen(t, to)
		if _, err := now.Store.Create(); err != nil {
			t.Fatal(err)
		}
		for _, at := range []string{from, to} {
			db := enginetest.Plain(t, at)
			if _, err := db.Exec(`CREATE TABLE "other's ""notes""" (note text); INSERT INTO "other's ""notes"""
				VALUES ('` + fmt.Sprint(at == from) + `')`); err != nil {
				t.Fatal(err)
			}
			if postgres.IsAddress(at) {
				postgrestest.Connect(t, at).Run(`BEGIN; LOCK TABLE "other's ""notes"""`)
			}
		}
		old := mustOpen(t, from)
		m, err := move.Run(t.Context(), old.Ledger, now.Ledger, nil)
		if err != nil {
			t.Fatal(err)
		}
		want.Rows(t, m.Left, foreign)
		if slices.ContainsFunc(m.Tables, func(table move.Table) bool { return table.Name == foreign }) {
			t.Error("a table of another program was moved")
		}
		if postgres.IsAddress(to) {
			return // the table is locked
		}
		var note string
		if err := enginetest.Plain(t,
			to).QueryRow(`SELECT group_concat(note) FROM "other's ""notes"""`).Scan(&note); err != nil ||
			note != "false" {
			t.Errorf("the table of the new place has %q, %v", note, err)
		}
	})
}

// TestKilledWhenMade checks that the new place takes writes after a run that was killed once it had made the place.
// Rows written there are kept, and the move is refused. Once they are deleted, the database moves.
func TestKilledWhenMade(t *testing.T) {
	t.Parallel()
	directions(t, func(t *testing.T, place func(int) (string, string)) {
		for i, row := range []string{`agent_inbox (recipient, message_id, payload) VALUES ('b', 'x', '1')`,
			`heartbeats (agent, heard_at) VALUES ('x', '')`} {
			table, _, _ := strings.Cut(row, " ")
			from, to := place(i)
			scene(t, from)
			runKilled(t, "made", from, to)
			enginetest.Miscounts(to)
			db := enginetest.Plain(t, to)
			if _, err := db.Exec(`INSERT INTO ` + row); err != nil {
				t.Fatal(err)
			}
			old, now := mustOpen(t, from), mustOpen(t, to)
			_, err := move.Run(t.Context(), old.Ledger, now.Ledger, nil)
			want.Code(t, err, orchestrator.Conflict)
			var n int64
			if err := db.QueryRow(`SELECT count(*) FROM ` + table).Scan(&n); err != nil || n != 1 {
				t.Errorf("%d rows are left in %s, %v", n, table, err)
			}
			if _, err := db.Exec(`DELETE FROM ` + table); err != nil {
				t.Fatal(err)
			}
			old.Close()
			now.Close()
			ends(t, from, to, messagesAtFirst)
		}
	})
}
