package router_test

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/daemons"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/retention"
	"mailroom/orchestrator/schedules"
	"mailroom/orchestrator/sessions"
)

// FuzzOddValues writes values of odd types by hand, any value into any column, while others send messages. It checks
// that each of their messages arrives once and in order, that every loop ends, and that no request fails with an
// internal error.
func FuzzOddValues(f *testing.F) {
	for seed := range uint64(4) {
		script := make([]byte, 400)
		for i, r := 0, rand.New(rand.NewPCG(seed, 1)); i < len(script); i++ {
			script[i] = byte(r.Uint32())
		}
		f.Add(script)
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		o := newOddRun(t, script[:min(len(script), 1000)])
		inTime(t, "a run with odd values", o.run)
	})
}

// oddRun is one run. Rows with good in their names must not be harmed. All other rows may be changed in any way.
type oddRun struct {
	*enginetest.Fixture
	routers []*delivery.Engine // act as several processes
	db      *sql.DB            // connection that writes odd values
	tables  []oddTable
	script  []byte // input of the run: decides what is written
	good    goodThings

	mu   sync.Mutex
	sent map[string][]string // ids by recipient, in the order of sending

	reading sync.Mutex
	read    []string // ids that the good reader got
	posts   []string // posts that it found in the good thread

	wrote []string // the statements, for the report of a failure
}

const goodType = "good"

func (o *oddRun) run(ctx context.Context) {
	enginetest.Miscounts(o.Path)
	var all sync.WaitGroup
	busy, stop := context.WithCancel(ctx)
	for i, r := range o.routers {
		all.Go(func() {
			for range 10 {
				for _, recipient := range []string{"good_reader", "good_wire", "good_group"} {
					o.sendGood(ctx, r, recipient, i)
				}
				o.postGood(ctx, r)
			}
		})
		all.Go(func() {
			for busy.Err() == nil {
				o.engine(busy, r)
			}
		})
	}
	all.Go(func() {
		defer stop()
		for len(o.script) > 0 {
			o.writeOdd(ctx)
			o.Clock.Advance(time.Second)
		}
	})
	all.Wait()
	for range 10 { // for messages that were put off, or delayed by a lease
		o.Clock.Advance(2 * time.Minute)
		o.engine(ctx, o.routers[0])
	}
	o.checkGood(ctx)
	o.ask(ctx)
	o.check()
	if o.T.Failed() || os.Getenv("ODD") != "" {
		o.T.Log("written:\n" + strings.Join(o.wrote, "\n"))
	}
}

// sendGood sends a message that must arrive once.
func (o *oddRun) sendGood(ctx context.Context, r *delivery.Engine, recipient string, lane int) {
	// The lock keeps the record in the order of sending.
	o.mu.Lock()
	defer o.mu.Unlock()
	sent, err := messages.Send(ctx, r.Ledger,
		orchestrator.Draft{Sender: "good_sender", Recipient: recipient, Type: goodType,
			Payload: []byte(fmt.Sprint(lane))})
	if err != nil {
		o.T.Errorf("a good send: %v", err)
		return
	}
	for i, name := range sent.Recipients {
		o.sent[name] = append(o.sent[name], sent.MessageIDs[i])
	}
}

// engine performs each recurring task of the engine once.
func (o *oddRun) engine(ctx context.Context, r *delivery.Engine) {
	done := func(what string, err error) {
		if err != nil && ctx.Err() == nil {
			o.T.Errorf("%s: %v", what, err)
		}
	}
	_, err := r.DeliverAll(ctx, delivery.Options{})
	done("delivering", err)
	o.reading.Lock() // two readers would record their messages out of order
	ms, _, err := reading.Wait(context.WithoutCancel(ctx), r.Ledger,
		reading.Options{Recipient: "good_reader", Limit: 7})
	done("reading", err)
	for i := range ms {
		if ms[i].Type == goodType {
			o.read = append(o.read, ms[i].ID)
		}
	}
	o.reading.Unlock()
	_, err = retention.ClearOld(ctx, r.Ledger, retention.ClearOptions{OlderThan: 5 * time.Second})
	done("clearing", err)
	_, err = sessions.New(r.Ledger).Look(ctx)
	done("looking at sessions", err)
	done("the heartbeat", daemons.Beat(ctx, r.Ledger, ""))
	_, err = overview.Status(ctx, r.Ledger)
	done("looking what is due next", err)
}

// ask makes all queries. A refusal is a valid answer; an internal error is not.
func (o *oddRun) ask(ctx context.Context) {
	fine := func(what string, err error) {
		if err != nil && orchestrator.CodeOf(err) == orchestrator.Internal {
			o.T.Errorf("%s: %v", what, err)
		}
	}
	must := func(what string, err error) {
		if err != nil {
			o.T.Errorf("%s: %v", what, err)
		}
	}
	_, err := agents.List(ctx, o.Ledger)
	must("agents", err)
	_, err = agents.Groups(ctx, o.Ledger)
	must("groups", err)
	_, err = o.Settings(ctx)
	must("settings", err)
	_, err = schedules.List(ctx, o.Ledger)
	must("schedules", err)
	_, err = agents.Tokens(ctx, o.Ledger, "")
	must("tokens", err)
	_, err = overview.Status(ctx, o.Ledger)
	must("status", err)
	_, _, err = overview.Standings(ctx, o.Ledger, overview.StandingFilter{Backlog: true, Waiting: true})
	must("standings", err)
	_, err = messages.DeadLetters(ctx, o.Ledger, messages.DeadLetterFilter{Limit: 100})
	must("dead letters", err)
	_, _, _, err = messages.Events(ctx, o.Ledger, messages.Cursor{}, "", 1000)
	must("events", err)
	o.askBeside(ctx, must, fine)
	for _, found := range overview.Doctor(ctx, o.Ledger, overview.DoctorOptions{}) {
		if found.Code == "database" {
			o.T.Errorf("the doctor: %+v", found)
		}
	}
	_, _, err = agents.Add(ctx, o.Ledger, agents.Update{Name: "good_reader"})
	must("updating an agent", err)
	_, err = o.SetSetting(ctx, "retry.max_retries", "2")
	must("setting", err)
	_, _, err = retention.ClearTraces(ctx, o.Ledger, time.Hour)
	must("clearing traces", err)
	_, stop, err := delivery.Wakeups(ctx, o.Ledger)
	must("wake-ups", err)
	stop()
	for _, name := range []string{"odd1", "odd2", "all", "user", "\xff", ""} {
		_, err := delivery.Poll(ctx, o.Ledger, name, 10)
		fine("polling", err)
		_, err = messages.Send(ctx, o.Ledger, orchestrator.Draft{Sender: "odd1", Recipient: name, Payload: []byte("1")})
		fine("sending", err)
		_, _, err = reading.Wait(ctx, o.Ledger, reading.Options{Recipient: name, Limit: 10})
		fine("waiting", err)
	}
	for _, id := range o.texts(`SELECT message_id FROM agent_message WHERE message_type IS DISTINCT FROM 'good' LIMIT 30`) {
		_, err := messages.Find(ctx, o.Ledger, id)
		fine("finding", err)
		_, err = overview.Why(ctx, o.Ledger, id)
		fine("why", err)
		_, err = overview.Trace(ctx, o.Ledger, id)
		fine("trace", err)
		_, err = messages.Acknowledge(ctx, o.Ledger, id, "")
		fine("acknowledging", err)
		_, err = messages.Cancel(ctx, o.Ledger, id, "")
		fine("cancelling", err)
		_, err = messages.Replay(ctx, o.Ledger, id, "")
		fine("replaying", err)
	}
	o.engine(ctx, o.routers[1])
}

// check checks that the good messages were delivered as promised.
func (o *oddRun) check() {
	same := func(what string, got, want []string) {
		if !slices.Equal(got, want) {
			o.T.Errorf("%s: got %d\n%v\nwant %d\n%v", what, len(got), got, len(want), want)
		}
	}
	same("what the good reader got", o.read, o.sent["good_reader"])
	var arrived []string
	for _, m := range o.Wire.Arrived {
		if m.Type == goodType && m.Recipient == "good_wire" {
			arrived = append(arrived, m.ID)
		}
	}
	same("what came to the good transport", arrived, o.sent["good_wire"])
	same("what was posted in the good thread", o.posts, o.sent["thread"])
	good := slices.Concat(o.sent["good_reader"], o.sent["good_wire"])
	want.Equal(o.T, "good messages", len(good), 80)
	told := map[string]int{}
	for _, row := range o.texts(`SELECT message_id || ' ' || event FROM message_trace WHERE message_id < x''`) {
		told[row]++
	}
	for _, id := range good {
		if n := fmt.Sprint(told[id+" created"], told[id+" delivered"], told[id+" failed"], told[id+" attempt_failed"],
			told[id+" adopted"]); n != "1 1 0 0 0" {
			o.T.Errorf("%s was created, delivered, given up, failed and adopted %s times", id, n)
		}
	}
}

func (o *oddRun) texts(query string, args ...any) (list []string) {
	rows, err := o.db.Query(query, args...)
	if err != nil {
		o.T.Errorf("%s: %v", query, err)
		return nil
	}
	defer rows.Close()
	for rows.Next() {
		var text sql.NullString
		if err := rows.Scan(&text); err != nil {
			o.T.Error(err)
		}
		list = append(list, text.String)
	}
	return list
}

// next returns the next number of the script, below n.
func (o *oddRun) next(n int) int {
	if len(o.script) == 0 {
		return 0
	}
	b := o.script[0]
	o.script = o.script[1:]
	return int(b) % n
}

// oddTable is a table into which odd values are written.
type oddTable struct {
	name, fair string   // fair is the condition for rows that may be harmed
	columns    []string // names of the columns
	number     string   // the column that SQLite numbers, if there is one
	keys       []string // one column of each unique index
}

// fairRows holds, by table, the condition for the rows that may be harmed. All rows of tables without an entry may
// be.
var fairRows = map[string]string{
	"agent_message":         `message_type IS DISTINCT FROM 'good'`,
	"agent_message_archive": `message_type IS DISTINCT FROM 'good'`,
	"message_trace": `message_id NOT IN (SELECT message_id FROM agent_message WHERE message_type = 'good'
		UNION SELECT message_id FROM agent_message_archive WHERE message_type = 'good')`,
	"agents":               notOf("name"),
	"groups":               `name IS DISTINCT FROM 'good_group'`,
	"group_members":        `group_name IS DISTINCT FROM 'good_group' OR agent NOT LIKE 'good%'`,
	"tokens":               `agent IS DISTINCT FROM 'good_sender'`,
	"agent_inbox":          notOf("recipient"),
	"reading_lease":        notOf("recipient"),
	"heartbeats":           notOf("agent"),
	"presence":             notOf("agent"),
	"thread_participants":  notOf("agent"),
	"threads":              notOf("creator"),
	"signal_questions":     notOf("asker"),
	"signal_devices":       notOf("name"),
	"signal_subscriptions": `device_id NOT IN (SELECT device_id FROM signal_devices WHERE name LIKE 'good%')`,
}

// notOf returns the condition for rows that are not about a good name.
func notOf(column string) string { return `coalesce(` + column + `, '') NOT LIKE 'good%'` }

// readTables lists the tables, so that new tables are written into too. agent_message, which has the most ways to be
// wrong, is the first.
func (o *oddRun) readTables() {
	asks := catalogue
	if o.OnServer() {
		asks = serversCatalogue
	}
	for _, name := range o.texts(asks.tables + ` ORDER BY name <> 'agent_message', name`) {
		table := oddTable{name: name, fair: cmp.Or(fairRows[name], "true"), columns: o.texts(asks.columns, name),
			keys: o.texts(asks.keys, name)}
		if numbers := o.texts(asks.numbers, name); len(numbers) > 0 {
			table.number = numbers[0]
		}
		o.tables = append(o.tables, table)
	}
}

// catalogue holds the queries for tables, columns, keys and numbered columns.
var catalogue = struct{ tables, columns, numbers, keys string }{
	`SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%'`,
	`SELECT name FROM pragma_table_info(?)`,
	`SELECT name FROM pragma_table_info(?) WHERE pk AND type = 'INTEGER'`,
	`SELECT (SELECT name FROM pragma_index_info(l.name) LIMIT 1) FROM pragma_index_list(?) l WHERE "unique"`,
}

var serversCatalogue = struct{ tables, columns, numbers, keys string }{
	`SELECT name FROM (SELECT table_name::text AS name FROM information_schema.tables
		WHERE table_schema = current_schema() AND table_type = 'BASE TABLE') AS t`,
	`SELECT column_name::text FROM information_schema.columns WHERE table_schema = current_schema() AND table_name = ?
		ORDER BY ordinal_position`,
	`SELECT column_name::text FROM information_schema.columns WHERE table_schema = current_schema() AND table_name = ?
		AND is_identity = 'YES'`,
	`SELECT DISTINCT a.attname::text FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid
		AND a.attnum = i.indkey[0]
		WHERE i.indisunique AND i.indrelid = to_regclass(?)`,
}

// decisive lists the columns by which rows of agent_message are found, distinguished and scheduled.
var decisive = []string{"message_id", "sender", "recipient", "status", "traced_status", "seq", "retry_count",
	"next_attempt_at", "review_at",
	"expires_at", "ended_at", "lease_token", "lease_until", "held", "crashes", "delivery_marks"}

// writeOdd makes one change by hand. It ignores changes that SQLite itself refuses.
func (o *oddRun) writeOdd(ctx context.Context) {
	table := o.tables[0]
	if n := o.next(2 * len(o.tables)); n < len(o.tables) {
		table = o.tables[n]
	}
	columns := table.columns
	if table.name == "agent_message" && o.next(2) == 0 {
		columns = decisive
	}
	column := columns[o.next(len(columns))]
	value := o.value()
	if table.name == "settings" && column == "value" {
		if _, isNumber := value.(int64); isNumber {
			value = "odd" // a number could be a valid setting
		}
	}
	id := "rowid"
	if o.OnServer() {
		id = "ctid"
	}
	row := fmt.Sprintf(`FROM %[1]s WHERE %[2]s ORDER BY %[4]s DESC
		LIMIT 1 OFFSET %[3]d %% max(1, (SELECT count(*) FROM %[1]s WHERE %[2]s))`,
		table.name, table.fair, o.next(6), id)
	if o.next(3) != 0 {
		o.exec(ctx, fmt.Sprintf(`UPDATE %s SET %s = ?1 WHERE %s = (SELECT %[3]s %[4]s)`, table.name, column, id, row),
			value)
	} else {
		o.exec(ctx, o.copyOf(&table, column, row), value, fmt.Sprint("odd-", len(o.wrote)))
	}
	if _, err := o.db.ExecContext(ctx, `INSERT INTO settings (key, value, updated_at) VALUES ('config.version', ?, '')
		ON CONFLICT (key) DO UPDATE SET value = excluded.value`, fmt.Sprint("version-", len(o.wrote))); err != nil {
		o.T.Error(err)
	}
}

// copyOf returns the statement that inserts a copy of a row, with another value for one column, ?1, and for its keys,
// ?2.
func (o *oddRun) copyOf(table *oddTable, column, row string) string {
	values := make([]string, len(table.columns))
	for i, name := range table.columns {
		switch {
		case name == column:
			values[i] = "?1"
		case name == table.number && o.OnServer():
			values[i] = "nextval(pg_get_serial_sequence('" + table.name + "', '" + name + "'))"
		case name == table.number:
			values[i] = "NULL"
		case slices.Contains(table.keys, name):
			values[i] = "?2"
		default:
			values[i] = name
		}
	}
	return `INSERT INTO ` + table.name + ` SELECT ` + strings.Join(values, ", ") + ` ` + row
}

func (o *oddRun) exec(ctx context.Context, statement string, args ...any) {
	_, err := o.db.ExecContext(ctx, statement, args[:min(len(args), strings.Count(statement, "?"))]...)
	text := fmt.Sprintf("%s %.300s", statement, fmt.Sprintf("%#v", args))
	if err != nil {
		text += ": " + err.Error()
	}
	o.wrote = append(o.wrote, text)
	if errors.Is(err, context.DeadlineExceeded) {
		o.T.Errorf("the database is locked for good: %v", err)
	}
}

// value returns an odd value.
func (o *oddRun) value() any {
	texts := []string{
		"", "odd1", "odd2", "nobody", "ODD1", "\x00", "a\x00b", "\xff\xfe", "é\u202e", "*", "all", "user", "system",
		"1", "-1", "1e300", "NaN", "true",
		"pending", "retry", "delivered", "done", "9999-12-31T23:59:59.999Z", "0000-01-01T00:00:00.000Z", "1", "now",
		"2026-01-02 03:04:05",
		"{", "[]", `{"a":1}`, strings.Repeat("[", 20000), strings.Repeat("x", 1<<20), "'; DROP TABLE agents; --",
		`"; DROP TABLE agents; --`,
		"inbox", "wire:x", "wire:", "jsonl:" + o.Path, "jsonl:" + o.Path + "-wal", "exec:", "webhook:x", "none:x",
		"dir:", "@doorbell", "@every 1ns", "* * * * *",
	}
	kind := o.next(4)
	if o.OnServer() && kind >= 2 {
		kind = 0 // this database has no BLOBs
	}
	switch kind {
	case 0:
		return texts[o.next(len(texts))]
	case 1:
		list := []any{int64(-1), int64(math.MinInt64), int64(math.MaxInt64), int64(1) << 53, int64(0), 1.5, -1e308,
			math.Inf(1), math.Inf(-1), math.NaN(), true, nil}
		return list[o.next(len(list))]
	case 2:
		o.mu.Lock()
		defer o.mu.Unlock()
		if list := o.sent["good_reader"]; len(list) > 0 {
			return []byte(list[o.next(len(list))]) // the id of a good message as a BLOB
		}
		return []byte("good_reader")
	default:
		list := []string{"", "\xff", "\x00", "odd1", "good_reader", "pending", "retry.ladder", "config.version",
			strings.Repeat("\xff", 1<<16)}
		return []byte(list[o.next(len(list))])
	}
}
