package move_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/move"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/helper"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/router"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/store/postgres/postgrestest"
)

// TestHelperProcess is a process that moves a database. Its argument is the step after which it dies, and the two
// places.
func TestHelperProcess(t *testing.T) {
	helper.Run(map[string]func(string, *bufio.Scanner){"move": func(arg string, _ *bufio.Scanner) {
		parts := strings.Split(arg, "\n")
		reached := func(step string) {
			if step == parts[0] {
				syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
		}
		fmt.Println("begun")
		from, err := open(parts[1])
		if err == nil {
			var to *delivery.Engine
			if to, err = open(parts[2]); err == nil {
				_, err = move.Run(context.Background(), from.Ledger, to.Ledger, reached)
			}
		}
		fmt.Println("ended", err)
	}})
}

func open(path string) (*delivery.Engine, error) {
	return router.Open(context.Background(), ledger.Options{Path: path, BusyTimeout: 5 * time.Second})
}

func mustOpen(t *testing.T, path string) *delivery.Engine {
	t.Helper()
	e, err := open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

func send(e *delivery.Engine) error {
	_, err := messages.Send(context.Background(), e.Ledger,
		orchestrator.Draft{Sender: "a", Recipient: "b", Type: "note", Payload: []byte(`"hello"`)})
	return err
}

// messagesAtFirst is the number of messages in a scene.
const messagesAtFirst = 10

// scene makes a database with messages at a place.
func scene(t *testing.T, place string) {
	t.Helper()
	e := mustOpen(t, place)
	if _, err := e.Store.Create(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b"} {
		if _, _, err := agents.Add(t.Context(), e.Ledger, agents.Update{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	for range messagesAtFirst {
		if err := send(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

// count returns the number of messages.
func count(t *testing.T, e *delivery.Engine) int64 {
	t.Helper()
	n, err := ledger.ReadValue(t.Context(), e.Ledger, func(c *store.Conn) (int64,
		error) {
		return c.Number(`SELECT count(*) FROM agent_message`)
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// directions runs a test for both directions of a move.
func directions(t *testing.T, do func(t *testing.T, place func(n int) (from, to string))) {
	server := postgrestest.Start(t)
	for _, back := range []bool{false, true} {
		t.Run(map[bool]string{false: "there", true: "back"}[back], func(t *testing.T) {
			folder := t.TempDir()
			do(t, func(n int) (from, to string) {
				file, on := filepath.Join(folder, fmt.Sprint(n, ".db")), postgrestest.Place(server)
				if back {
					return on, file
				}
				return file, on
			})
		})
	}
}

// TestKilledAtEachStep checks that a move that was killed after any step can be run again, and that both places never
// take writes at the same time.
func TestKilledAtEachStep(t *testing.T) {
	t.Parallel()
	directions(t, func(t *testing.T, place func(int) (string, string)) {
		for i, step := range []string{"made", "held", "copied agent_message", "copied waits", "filled", "arrived",
			"marked", "keys"} {
			from, to := place(i)
			scene(t, from)
			runKilled(t, step, from, to)
			n := int64(messagesAtFirst)
			if takes(t, from, to) {
				n++
			}
			ends(t, from, to, n)
		}
	})
}

// runKilled moves the database in a process that dies after a step.
func runKilled(t *testing.T, step, from, to string) {
	t.Helper()
	p := helper.Start(t, "move", strings.Join([]string{step, from, to}, "\n"))
	p.Expect("begun")
	if said, ok := <-p.Lines; ok {
		t.Fatalf("it was not killed after %q: %s", step, said)
	}
}

// takes sends a message at both places, and reports whether the old one accepted it. It fails if both do.
func takes(t *testing.T, from, to string) bool {
	t.Helper()
	old, now := mustOpen(t, from), mustOpen(t, to)
	defer old.Close()
	defer now.Close()
	first := send(old)
	if now.Store.Exists() && count(t, now) > 0 && send(now) == nil && first == nil {
		t.Fatal("both places take messages")
	}
	return first == nil
}

// ends completes the move, and checks the result.
func ends(t *testing.T, from, to string, n int64) {
	t.Helper()
	old, now := mustOpen(t, from), mustOpen(t, to)
	defer old.Close()
	defer now.Close()
	if _, err := move.Run(t.Context(), old.Ledger, now.Ledger, nil); err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "messages", count(t, now), n)
	if err := send(now); err != nil {
		t.Errorf("the new place: %v", err)
	}
	after := mustOpen(t, from)
	defer after.Close()
	if err := send(after); !errors.Is(err, store.ErrMoved) {
		t.Errorf("the old place took a message: %v", err)
	}
	want.Equal(t, "messages that are left behind", count(t, after), n)
	err := now.Read(t.Context(), func(c *store.Conn) error {
		wrong, err := ledger.Miscounted(c)
		want.Equal(t, "wrong counts", len(wrong), 0)
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestKilledAtRandom checks that a move that is killed repeatedly at random moments is completed in the end.
func TestKilledAtRandom(t *testing.T) {
	t.Parallel()
	directions(t, func(t *testing.T, place func(int) (string, string)) {
		from, to := place(0)
		scene(t, from)
		n := int64(messagesAtFirst)
		for try := time.Duration(1); ; try++ {
			p := helper.Start(t, "move", strings.Join([]string{"", from, to}, "\n"))
			p.Expect("begun")
			kill := time.AfterFunc(rand.N(try*200*time.Millisecond), func() { syscall.Kill(p.ID(), syscall.SIGKILL) })
			said, done := <-p.Lines
			kill.Stop()
			if done && said == "ended <nil>" {
				break
			}
			if done && try > 100 {
				t.Fatal(said)
			}
			if !done {
				old := mustOpen(t, from)
				if send(old) == nil {
					n++
				}
				old.Close()
			}
		}
		ends(t, from, to, n)
	})
}

// TestHeldStill checks that nobody can write while a database moves, and that a process that has the database open
// gets an error that it has moved. The test runs before the others, because it looks at all moves of this process.
func TestHeldStill(t *testing.T) {
	directions(t, func(t *testing.T, place func(int) (string, string)) {
		from, to := place(0)
		scene(t, from)
		other, err := router.Open(t.Context(), ledger.Options{Path: from, BusyTimeout: 20 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { other.Close() })
		if err := send(other); err != nil {
			t.Fatal(err)
		}
		var meanwhile []error
		reached := func(step string) {
			if slices.Contains([]string{"held", "filled", "arrived"}, step) {
				meanwhile = append(meanwhile, send(other))
			}
		}
		old, now := mustOpen(t, from), mustOpen(t, to)
		m, err := move.Run(t.Context(), old.Ledger, now.Ledger, reached)
		if err != nil {
			t.Fatal(err)
		}
		want.Equal(t, "messages sent meanwhile", len(meanwhile), 3)
		for _, err := range meanwhile {
			want.Equal(t, "what a sender got", orchestrator.CodeOf(err), orchestrator.Busy)
		}
		if m.Standstill <= 0 {
			t.Error("there was no standstill")
		}
		if err := send(other); !errors.Is(err, store.ErrMoved) || !strings.Contains(err.Error(), now.Path()) {
			t.Errorf("who had it open: %v", err)
		}
		want.Equal(t, "messages", count(t, now), messagesAtFirst+1)
	})
}

// filled inserts rows into every table of a file, with texts that are hard to copy.
func filled(t *testing.T, file string) {
	t.Helper()
	db := enginetest.Plain(t, file)
	rows, err := db.Query(`SELECT s.name, p.name, p.type FROM sqlite_schema s JOIN pragma_table_info(s.name) p
		WHERE s.type = 'table' AND s.name NOT LIKE 'sqlite%' ORDER BY s.name, p.cid`)
	if err != nil {
		t.Fatal(err)
	}
	columns, kinds := map[string][]string{}, map[string][]string{}
	for rows.Next() {
		var table, column, kind string
		if err := rows.Scan(&table, &column, &kind); err != nil {
			t.Fatal(err)
		}
		columns[table], kinds[table] = append(columns[table], column), append(kinds[table], kind)
	}
	rows.Close()
	for table, names := range columns {
		if table == "message_count" || table == "settings" {
			continue
		}
		for i := range 3 {
			var values []any
			for j, name := range names {
				switch {
				case kinds[table][j] == "INTEGER":
					values = append(values, int64(1000+i))
				case (table == "agents" || table == "groups") && name == "name", table == "group_members" &&
					name == "agent":
					values = append(values, fmt.Sprintf("name-%d", i))
				default:
					values = append(values, fmt.Sprintf("%s %d \\ \t\n\r\"'{}\\N €𝄞 \\.", name, i))
				}
			}
			if _, err := db.Exec(`INSERT INTO `+table+` ("`+strings.Join(names, `", "`)+`") VALUES (?`+
				strings.Repeat(`, ?`, len(names)-1)+`)`, values...); err != nil {
				t.Fatalf("%s: %v", table, err)
			}
		}
	}
}

// dump returns the rows of all tables of a file in the order of their insertion, without the values that a move
// changes.
func dump(t *testing.T, file string) map[string][]string {
	t.Helper()
	db := enginetest.Plain(t, file)
	all := map[string][]string{}
	names, err := db.Query(`SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'
		AND name NOT IN
		('settings', 'daemons', 'waits', 'reading_lease', 'host_sessions', 'exports', 'signal_pairings')`)
	if err != nil {
		t.Fatal(err)
	}
	var tables []string
	for names.Next() {
		var name string
		if err := names.Scan(&name); err != nil {
			t.Fatal(err)
		}
		tables = append(tables, name)
	}
	names.Close()
	for _, table := range tables {
		query := `SELECT * FROM ` + table
		if table == "agents" {
			query = `SELECT name, role, deliver, start_command, folder FROM agents` // without their hosts
		}
		rows, err := db.Query(query + ` ORDER BY rowid`)
		if err != nil {
			t.Fatal(err)
		}
		names, _ := rows.Columns()
		for rows.Next() {
			values, into := make([]any, len(names)), make([]any, len(names))
			for i := range values {
				into[i] = &values[i]
			}
			if err := rows.Scan(into...); err != nil {
				t.Fatal(err)
			}
			all[table] = append(all[table], fmt.Sprintf("%q", values))
		}
		rows.Close()
	}
	return all
}

// TestThereAndBack checks that all rows of all tables are unchanged after a move there and back.
func TestThereAndBack(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	first, place, last := filepath.Join(t.TempDir(), "first.db"), postgrestest.Place(server),
		filepath.Join(t.TempDir(), "last.db")
	scene(t, first)
	filled(t, first)
	before := dump(t, first)
	for _, leg := range [][2]string{{first, place}, {place, last}} {
		from, to := mustOpen(t, leg[0]), mustOpen(t, leg[1])
		m, err := move.Run(t.Context(), from.Ledger, to.Ledger, nil)
		if err != nil {
			t.Fatal(err)
		}
		want.Equal(t, "repairs", m.Repairs.N, 0)
		from.Close()
		to.Close()
	}
	after := dump(t, last)
	for table, rows := range before {
		if !slices.Equal(rows, after[table]) {
			t.Errorf("%s:\n%s\nbecame\n%s", table, strings.Join(rows, "\n"), strings.Join(after[table], "\n"))
		}
	}
	e := mustOpen(t, last)
	if err := send(e); err != nil {
		t.Fatal(err)
	}
	seq, err := ledger.ReadValue(t.Context(), e.Ledger, func(c *store.Conn) (int64,
		error) {
		return c.Number(`SELECT max(seq) FROM agent_message`)
	})
	if err != nil || seq != 1003 {
		t.Errorf("the next message got the number %d, %v", seq, err)
	}
}

// TestRepairs checks that values that PostgreSQL cannot store are repaired, counted and reported, and that unreadable
// values become readable.
func TestRepairs(t *testing.T) {
	t.Parallel()
	file, place := filepath.Join(t.TempDir(), "odd.db"), postgrestest.Place(postgrestest.Start(t))
	scene(t, file)
	db := enginetest.Plain(t, file)
	if _, err := db.Exec(`INSERT INTO agent_message (message_id, sender, recipient, payload, priority, error_message,
		traced_status, status) VALUES
		('odd', 'a', CAST('b' AS BLOB), '1', 'high', CAST(x'610062ff' AS TEXT), 'pending', 'pending')`); err != nil {
		t.Fatal(err)
	}
	from, to := mustOpen(t, file), mustOpen(t, place)
	m, err := move.Run(t.Context(), from.Ledger, to.Ledger, nil)
	if err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "repairs", m.Repairs.N, 3)
	for _, part := range []string{`recipient of "odd" in agent_message: x'62' became "b"`,
		`priority of "odd" in agent_message: "high" became 0`, `error_message of`} {
		if !slices.ContainsFunc(m.Repairs.First, func(line string) bool { return strings.Contains(line, part) }) {
			t.Errorf("%q is not among %q", part, m.Repairs.First)
		}
	}
	if err := send(to); err != nil {
		t.Fatal(err)
	}
}

// TestRepairedCountsOnce checks that a row that is repaired, and so adopted again, counts once, also if it was
// counted before.
func TestRepairedCountsOnce(t *testing.T) {
	t.Parallel()
	file, place := filepath.Join(t.TempDir(), "odd.db"), postgrestest.Place(postgrestest.Start(t))
	scene(t, file)
	if _, err := enginetest.Plain(t, file).Exec(`INSERT INTO agent_message (message_id, sender, recipient, payload,
		traced_status, status) VALUES ('odd', CAST('a' AS BLOB), 'b', '1', 'pending', 'pending')`); err != nil {
		t.Fatal(err)
	}
	from, to := mustOpen(t, file), mustOpen(t, place)
	if err := from.Write(t.Context(), store.Alone, ledger.Recount); err != nil {
		t.Fatal(err)
	}
	m, err := move.Run(t.Context(), from.Ledger, to.Ledger, nil)
	if err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "repairs", m.Repairs.N, 1)
	if err := send(to); err != nil {
		t.Fatal(err)
	}
	wrong, err := ledger.ReadValue(t.Context(), to.Ledger, ledger.Miscounted)
	if want.Lines(t, wrong); err != nil {
		t.Error(err)
	}
}
