package move_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"mailroom/orchestrator"
	"mailroom/orchestrator/move"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/store/postgres/postgrestest"
)

// TestTwins checks that a database with values that a server cannot distinguish does not move, and that the error
// names both values. Once one of them is changed, the database moves.
func TestTwins(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	message, key := `INSERT INTO agent_message (message_id, sender, recipient, payload) VALUES (%s, 'a', 'b', '1')`,
		`INSERT INTO idempotency (sender, key, params_hash, result, created_at) VALUES ('a', %s, '', '', '')`
	for i, test := range []struct{ table, insert, one, other, says, mend string }{
		{"agent_message", message, `CAST(x'6100' AS TEXT)`, `CAST(x'61ff' AS TEXT)`,
			`message_id in the new database: "a\x00" and "a\xff" both become "a\ufffd"`,
			`UPDATE agent_message SET message_id = 'c' WHERE seq = %d`},
		{"agent_message", message, `'a'`, `x'61'`,
			`message_id in the new database: "a" and x'61' both become "a"`,
			`DELETE FROM agent_message WHERE seq = %d`},
		{"idempotency", key, `CAST(x'6100' AS TEXT)`, `CAST(x'61efbfbd' AS TEXT)`,
			`sender, key in the new database: "a", "a\x00" and "a", "a\ufffd" both become "a", "a\ufffd"`,
			`DELETE FROM idempotency WHERE key = CAST(x'6100' AS TEXT) AND %d > 0`},
	} {
		file, place := filepath.Join(t.TempDir(), fmt.Sprint(i, ".db")), postgrestest.Place(server)
		scene(t, file)
		db := enginetest.Plain(t, file)
		enginetest.Miscounts(file)
		for _, value := range []string{test.one, test.other} {
			if _, err := db.Exec(fmt.Sprintf(test.insert, value)); err != nil {
				t.Fatal(err)
			}
		}
		from, to := mustOpen(t, file), mustOpen(t, place)
		_, err := move.Run(t.Context(), from.Ledger, to.Ledger, nil)
		want.Equal(t, "the code", orchestrator.CodeOf(err), orchestrator.Conflict)
		if text := "the table " + test.table + " has two rows that would have the same " + test.says +
			"; nothing was moved"; !strings.HasPrefix(fmt.Sprint(err), text) {
			t.Errorf("%v; want %s", err, text)
		}
		if err := send(from); err != nil {
			t.Errorf("the place from which nothing has moved: %v", err)
		}
		want.Equal(t, "messages at the new place", count(t, to), 0)
		if _, err := db.Exec(fmt.Sprintf(test.mend, messagesAtFirst+2)); err != nil {
			t.Fatal(err)
		}
		if _, err := move.Run(t.Context(), from.Ledger, to.Ledger, nil); err != nil {
			t.Error(err)
		}
	}
}

// TestNoTwins checks that two values are both kept if one is a prefix of the other.
func TestNoTwins(t *testing.T) {
	t.Parallel()
	file, place := filepath.Join(t.TempDir(), "odd.db"), postgrestest.Place(postgrestest.Start(t))
	scene(t, file)
	enginetest.Miscounts(file)
	if _, err := enginetest.Plain(t,
		file).Exec(`INSERT INTO agent_message (message_id, sender, recipient, payload) VALUES
		('a', 'a', 'b', '1'), (CAST(x'6100' AS TEXT), 'a', 'b', '1'),
			(CAST(x'610000' AS TEXT), 'a', 'b', '1')`); err != nil {
		t.Fatal(err)
	}
	from, to := mustOpen(t, file), mustOpen(t, place)
	m, err := move.Run(t.Context(), from.Ledger, to.Ledger, nil)
	if err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "repairs", m.Repairs.N, 2)
	want.Equal(t, "messages", count(t, to), messagesAtFirst+3)
}
