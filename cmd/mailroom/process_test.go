package main

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/store/postgres"
)

// office is a database that real processes use at the same time: a file or, if the tests run on a server, a database
// there.
type office struct {
	t       *testing.T
	db      string
	folder  string     // the home of its users, which contains a database file
	program string     // in the PATH; "" is mailroom
	env     []string   // in addition to that of the test
	phones  string     // where phones store their data; "" is folder
	reaches []string   // environment in which agent hosts can reach the database
	network *namespace // for its daemons; nil for that of the test
}

func newOffice(t *testing.T, agents ...string) *office {
	t.Helper()
	return newOfficeOf(t, "mailroom", t.TempDir(), agents...)
}

// newOfficeOf creates an office with a folder, for processes of one of the programs that TestMain lists.
func newOfficeOf(t *testing.T, program, folder string, agents ...string) *office {
	t.Helper()
	o := &office{t: t, db: enginetest.PlaceAt(t, filepath.Join(folder, "mailroom.db")), folder: folder,
		program: program}
	o.begin()
	for _, a := range agents {
		o.run(append([]string{"agent", "add"}, strings.Fields(a)...)...)
	}
	return o
}

// begin creates the database. On a server it exists already, as a copy, so begin gives it a unique ID and trusts it
// as this user.
func (o *office) begin() {
	o.t.Helper()
	if !postgres.IsAddress(o.db) {
		o.run("--db", o.db, "init")
		return
	}
	if _, err := enginetest.Plain(o.t, o.db).Exec(`UPDATE settings SET value = ?1 WHERE key = 'database.id'`,
		rand.Text()); err != nil {
		o.t.Fatal(err)
	}
	o.run("trust")
}

// beside returns the prefix of the paths of files that belong to the database.
func (o *office) beside() string {
	o.t.Helper()
	if !postgres.IsAddress(o.db) {
		return o.db
	}
	return filepath.Join(os.Getenv("XDG_STATE_HOME"), "mailroom",
		o.rows(`SELECT value FROM settings WHERE key = 'database.id'`)[0], "mailroom")
}

// tables returns the contents of the tables.
func (o *office) tables() map[string][]byte {
	o.t.Helper()
	names, said := `SELECT name FROM sqlite_schema WHERE type = 'table'`, map[string][]byte{}
	if postgres.IsAddress(o.db) {
		names = `SELECT tablename FROM pg_tables WHERE schemaname = 'mailroom'`
	}
	for _, table := range o.rows(names) {
		said["table "+table] = []byte(strings.Join(o.rows(fmt.Sprintf("SELECT * FROM %q", table)), "\n"))
	}
	return said
}

// command returns the command of one process on the database. TestMain has put `mailroom` into the PATH.
func (o *office) command(args ...string) *exec.Cmd {
	cmd := exec.Command(cmp.Or(o.program, "mailroom"), args...)
	cmd.Env = append(os.Environ(), "MAILROOM_DB="+o.db, "MAILROOM_AGENT=", "HOME="+o.folder)
	cmd.Env = append(cmd.Env, o.env...)
	return cmd
}

// run runs one process to its end and returns its answer.
func (o *office) run(args ...string) map[string]any {
	o.t.Helper()
	var errs bytes.Buffer
	cmd := o.command(args...)
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		o.t.Fatalf("mailroom %s: %v\n%s%s", strings.Join(args, " "), err, out, errs.Bytes())
	}
	var answer map[string]any
	if err := json.Unmarshal(out, &answer); err != nil {
		o.t.Fatalf("mailroom %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return answer
}

// rows runs a query as another program does; columns are separated by |.
func (o *office) rows(query string) (list []string) {
	o.t.Helper()
	db := enginetest.Plain(o.t, o.db)
	defer db.Close()
	rows, err := db.Query(query)
	if err != nil {
		o.t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		o.t.Fatal(err)
	}
	for rows.Next() {
		cells, targets := make([]sql.NullString, len(columns)), make([]any, len(columns))
		for i := range cells {
			targets[i] = &cells[i]
		}
		if err := rows.Scan(targets...); err != nil {
			o.t.Fatal(err)
		}
		texts := make([]string, len(cells))
		for i := range cells {
			texts[i] = cells[i].String
		}
		list = append(list, strings.Join(texts, "|"))
	}
	return list
}

// sender is a `mailroom send --stdin` that a test uses line by line.
type sender struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

func (o *office) startSender() (*sender, error) {
	s := &sender{cmd: o.command("send", "--stdin")}
	var err error
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.cmd.Stderr = os.Stderr
	s.out = bufio.NewScanner(out)
	s.out.Buffer(nil, 4<<20)
	return s, s.cmd.Start()
}

// say writes one message.
func (s *sender) say(from, to, payload string) error {
	_, err := fmt.Fprintf(s.in, `{"sender":%q,"recipient":%q,"message_type":"note","payload":%s}`+"\n", from, to,
		payload)
	return err
}

// heard reads one answer and returns the ID of the message that is on disk now; ok is false if the process has ended.
func (s *sender) heard() (id string, ok bool, err error) {
	if !s.out.Scan() {
		return "", false, s.out.Err()
	}
	var answer struct {
		Success   bool   `json:"success"`
		MessageID string `json:"message_id"`
	}
	if err := json.Unmarshal(s.out.Bytes(), &answer); err != nil || !answer.Success {
		return "", false, fmt.Errorf("answer %q: %v", s.out.Text(), err)
	}
	return answer.MessageID, true, nil
}

// checkHistory checks the properties that every database must have: it is intact, and the trace agrees with the
// table.
func (o *office) checkHistory() {
	o.t.Helper()
	if !postgres.IsAddress(o.db) {
		want.Rows(o.t, o.rows("PRAGMA integrity_check"), "ok")
	}
	for _, name := range []string{"trace_disagrees", "duplicate_deliveries", "messages_without_trace"} {
		if rows := o.run("sql", "--named", name)["rows"].([]any); len(rows) > 0 {
			o.t.Errorf("audit %s: %v", name, rows[:min(len(rows), 5)])
		}
	}
	// On a server transactions are concurrent, and their numbers alternate.
	if got := o.rows(`SELECT a.id FROM message_trace a JOIN message_trace b ON b.id = a.id + 1 WHERE b.at < a.at
		LIMIT 5`); len(got) > 0 && !postgres.IsAddress(o.db) {
		o.t.Errorf("times in the trace go backwards after rows %v", got)
	}
}

// lines counts how often each message is in a file of lines. It skips a torn line.
func (o *office) lines(path string) map[string]int {
	o.t.Helper()
	content, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		o.t.Fatal(err)
	}
	count := map[string]int{}
	for line := range strings.Lines(string(content)) {
		var m struct {
			MessageID string `json:"message_id"`
		}
		if json.Unmarshal([]byte(line), &m) == nil && m.MessageID != "" {
			count[m.MessageID]++
		}
	}
	return count
}
