package admin

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
)

var update = flag.Bool("update", false, "write docs/audits.md")

// history is two days in the life of a database. Everything in it happened through commands, real files and a clock of
// the test's own, except for what the history itself calls "by hand".
type history struct {
	*fixture
	labels []string // message id and label, by turns
}

// at sets the clock to a time of the second day.
func (h *history) at(hms string) {
	h.t.Helper()
	at, err := time.Parse(time.RFC3339, "2026-01-02T"+hms+"Z")
	if err != nil {
		h.t.Fatal(err)
	}
	h.clock.set(at)
}

// label names a message.
func (h *history) label(label, id string) string {
	h.labels = append(h.labels, id, label)
	return id
}

// bounced labels the error_report about a message.
func (h *history) bounced(label, about string) {
	h.t.Helper()
	table, err := h.router.Query(h.t.Context(), `SELECT message_id FROM agent_message WHERE reply_to = ?1 AND sender = 'system'`, 2, about)
	if err != nil || len(table.Rows) != 1 {
		h.t.Fatalf("the error_report about %s: %v, %v", about, table.Rows, err)
	}
	h.label(label, table.Rows[0].Values[0].(string))
}

func (h *history) deliver() { h.t.Helper(); ask[any](h.fixture, "deliver_all", `{}`) }

// knownHistory lives through it, and ends at 12:00 on the second day.
func knownHistory(t *testing.T) *history {
	c := &clock{at: time.Date(2025, 12, 31, 12, 0, 0, 0, time.UTC)}
	open, shut := newGate(func() { c.advance(2 * time.Second) }), newGate(func() {})
	close(open.through)
	h := &history{fixture: newFixture(t, c, map[string]orchestrator.Transport{"gate": open})}
	stuck := h.open("stuck", map[string]orchestrator.Transport{"gate": shut}) // a process that gets caught in its deliveries
	t.Cleanup(func() { close(shut.through) })

	folder := t.TempDir()
	h.labels = append(h.labels, folder, "DIR")
	for name, deliver := range map[string]string{
		"architect": "inbox", "builder": "inbox", "clerk": "jsonl:" + folder + "/late/clerk", "archivist": "jsonl:" + folder + "/never/archivist",
		"press": "gate:press", "printer": "gate:printer", "plotter": "gate:plotter",
	} {
		ask[any](h.fixture, "agent_add", `{"name":"`+name+`","deliver":"`+deliver+`"}`)
	}
	ask[any](h.fixture, "agent_add", `{"name":"plotter","timeout":30}`)
	typo := h.refused("send", `{"sender":"architect","recipient":"bilder","message_type":"note"}`, orchestrator.UnknownRecipient)
	h.label("m0-typo", typo.MessageID)

	h.morning(folder)
	h.stall(stuck, shut)
	h.noon()

	h.at("11:58:00")
	h.label("m14-printed", h.send("architect", "printer", "job", ""))
	h.label("m15-plotted", h.send("architect", "plotter", "job", ""))
	if _, err := stuck.DeliverAll(t.Context(), orchestrator.DeliverOptions{Background: true}); err != nil {
		t.Fatal(err)
	}
	<-shut.begun
	<-shut.begun
	h.at("11:59:00")
	h.label("m16-waiting", h.send("architect", "builder", "note", ""))
	h.byHand(`INSERT INTO agent_message (message_id, sender, recipient) VALUES ('by-hand', 'architect', 'builder')`)
	h.byHand(`UPDATE agent_message SET status = 'cancelled' WHERE message_type = 'figures'`)
	h.at("12:00:00")
	return h
}

// morning: reading, a question and its answer, one message given up and one that gets through at last.
func (h *history) morning(folder string) {
	h.at("10:00:00")
	first := h.label("m1-read", h.send("architect", "builder", "note", ""))
	h.at("10:00:01")
	h.deliver()
	h.at("10:05:00")
	ask[any](h.fixture, "wait", `{"recipient":"builder","timeout":0}`)
	h.byHand(`INSERT INTO message_trace (message_id, at, event, old_status, new_status, actor)
		VALUES (?, '2026-01-02T10:05:00.000Z', 'delivered', 'delivered', 'delivered', 'intruder')`, first)

	h.at("10:06:00")
	h.label("m2-unanswered", h.send("architect", "builder", "question", ""))
	h.at("10:06:10")
	h.deliver()
	h.at("10:07:00")
	question := h.label("m3-question", h.send("builder", "architect", "question", ""))
	h.deliver()
	ask[any](h.fixture, "wait", `{"recipient":"architect","timeout":0}`)
	ask[any](h.fixture, "acknowledge", `{"message_id":"`+question+`"}`)
	h.at("10:08:00")
	h.label("m4-answer", h.send("architect", "builder", "answer", `,"reply_to":"`+question+`"`))
	h.deliver()

	h.at("10:10:00")
	lost := h.label("m5-given-up", h.send("architect", "clerk", "report", `,"max_retries":1`))
	h.deliver()
	h.at("10:10:30")
	h.deliver()
	h.bounced("m6-bounce", lost)
	h.at("10:11:00")
	h.label("m7-climber", h.send("builder", "clerk", "figures", ""))
	h.deliver()
	h.at("10:11:30")
	h.deliver()
	if err := os.Mkdir(filepath.Join(folder, "late"), 0o700); err != nil {
		h.t.Fatal(err)
	}
	h.at("10:12:30")
	h.deliver()
}

// stall: a process is caught in a delivery until its lease has run out, and another takes over.
func (h *history) stall(stuck *orchestrator.Router, shut *gate) {
	h.at("10:20:00")
	h.label("m8-crash", h.send("architect", "press", "job", ""))
	if _, err := stuck.DeliverAll(h.t.Context(), orchestrator.DeliverOptions{Background: true}); err != nil {
		h.t.Fatal(err)
	}
	<-shut.begun
	h.at("10:30:00")
	h.deliver() // takes 2 s
}

// noon: a typo, changes by hand and their adoption, a replay, an expiry, and one on the ladder.
func (h *history) noon() {
	h.at("10:31:00")
	typo := h.refused("send", `{"sender":"architect","recipient":"bilder","message_type":"note"}`, orchestrator.UnknownRecipient)
	h.label("m9-typo", typo.MessageID)
	h.at("10:40:00")
	h.label("m10-again", h.send("clerk", "architect", "note", ""))
	h.deliver()
	h.byHand(`UPDATE agent_message SET status = 'pending' WHERE sender = 'clerk'`)
	h.at("10:41:00")
	h.deliver()
	h.at("10:52:00")
	late := h.label("m11-expired", h.send("builder", "archivist", "note", `,"ttl_seconds":60`))
	h.deliver()
	h.at("10:54:00")
	h.deliver()
	h.bounced("m12-bounce", late)
	h.at("11:50:00")
	h.label("m13-climbing", h.send("builder", "archivist", "note", ""))
	h.deliver()
	h.at("11:52:00")
	h.deliver()
	h.at("11:57:00")
	h.deliver()
}

var traceIDs = regexp.MustCompile(`\b[0-9a-f]{32}\b`)

// audit runs a named query and returns its rows, cells separated by " | ", with labels in place of ids.
func (h *history) audit(name string, params ...string) []string {
	h.t.Helper()
	quoted := "[]"
	if len(params) > 0 {
		quoted = `["` + strings.Join(params, `","`) + `"]`
	}
	r := ask[SQLResult](h.fixture, "sql", `{"named":"`+name+`","params":`+quoted+`}`)
	a, err := findAudit(name)
	if err != nil {
		h.t.Fatal(err)
	}
	if !slices.Equal(r.Columns, a.Columns) {
		h.t.Errorf("%s: the columns are %q; its head says %q", name, r.Columns, a.Columns)
	}
	labels := strings.NewReplacer(h.labels...)
	rows := []string{}
	for _, row := range r.Rows {
		cells := make([]string, len(row.Values))
		for i, v := range row.Values {
			cells[i] = fmt.Sprint(v)
		}
		rows = append(rows, traceIDs.ReplaceAllString(labels.Replace(strings.Join(cells, " | ")), "TRACE"))
	}
	return rows
}

// wantRows are the rows of every audit over the known history, in the order of the columns. The day is left out.
var wantRows = map[string][]string{
	"backlog": {
		"archivist | 0 | 1 | 0 | 11:50:00.000Z | 600",
		"builder | 2 | 0 | 0 | 11:59:00.000Z | 60",
		"plotter | 1 | 0 | 1 | 11:58:00.000Z | 120",
		"printer | 1 | 0 | 1 | 11:58:00.000Z | 120",
	},
	"busiest_pairs": {
		"architect | builder | 5 | 1 | 11:59:00.000Z",
		"architect | bilder | 2 | 0 | 10:31:00.000Z",
		"builder | archivist | 2 | 0 | 11:50:00.000Z",
		"architect | clerk | 1 | 0 | 10:10:00.000Z",
		"architect | plotter | 1 | 0 | 11:58:00.000Z",
		"architect | press | 1 | 0 | 10:20:00.000Z",
		"architect | printer | 1 | 0 | 11:58:00.000Z",
		"builder | architect | 1 | 0 | 10:07:00.000Z",
		"builder | clerk | 1 | 0 | 10:11:00.000Z",
		"clerk | architect | 1 | 0 | 10:40:00.000Z",
		"system | architect | 1 | 0 | 10:10:30.000Z",
		"system | builder | 1 | 0 | 10:54:00.000Z",
	},
	"command_errors": {
		"10:31:00.000Z | send |  | first | unknown_recipient | nobody is known as recipient \"bilder\". Did you mean builder or builders? The message is kept as dead letter m9-typo | TRACE",
	},
	"commands_by_duration": {
		"deliver_all | 17 | 0 | 0.118 | 2",
		"acknowledge | 1 | 0 | 0 | 0",
		"send | 14 | 1 | 0 | 0",
		"wait | 2 | 0 | 0 | 0",
	},
	"crashes": {
		"m8-crash | press | delivered | 1 | <nil>",
	},
	"dead_letters_by_reason": {
		"unknown_recipient: nobody is known as recipient \"bilder\" | bilder | 2 | 10:31:00.000Z",
		"not delivered before it expired at 10:53:00.000Z | archivist | 1 | 10:54:00.000Z",
		"the folder DIR/late does not exist; make it, and the next attempt gets through | clerk | 1 | 10:10:30.000Z",
	},
	"duplicate_deliveries": {
		"m1-read | 10:00:01.000Z | 10:05:00.000Z | first | intruder",
	},
	"failed_last_day": {
		"10:54:00.000Z | m11-expired | builder | archivist | note | expired | 0 | not delivered before it expired at 10:53:00.000Z",
		"10:31:00.000Z | m9-typo | architect | bilder | note | failed | 0 | unknown_recipient: nobody is known as recipient \"bilder\"",
		"10:10:30.000Z | m5-given-up | architect | clerk | report | failed | 1 | the folder DIR/late does not exist; make it, and the next attempt gets through",
	},
	"leases": {
		"m15-plotted | plotter | stuck | 11:59:00.000Z | 1 | 0",
		"m14-printed | printer | stuck | 12:03:30.000Z | 0 | 0",
	},
	"messages_without_trace": {
		"by-hand | architect | builder | pending",
	},
	"never_acknowledged": {
		"m1-read | architect | builder | 10:05:00.000Z",
	},
	"overdue": {
		"m13-climbing | builder | archivist | retry | 11:50:00.000Z | 600 | 11:59:00.000Z | the folder DIR/never does not exist; make it, and the next attempt gets through",
	},
	"retries_by_recipient": {
		"archivist | 4 | 2 | the folder DIR/never does not exist; make it, and the next attempt gets through",
		"clerk | 4 | 2 | the folder DIR/late does not exist; make it, and the next attempt gets through",
	},
	"slowest_deliveries": {
		"m8-crash | architect | press | 10:20:00.000Z | 10:30:02.000Z | 602 | 0",
		"m7-climber | builder | clerk | 10:11:00.000Z | 10:12:30.000Z | 90 | 2",
		"m10-again | clerk | architect | 10:40:00.000Z | 10:41:00.000Z | 60 | 0",
		"m2-unanswered | architect | builder | 10:06:00.000Z | 10:06:10.000Z | 10 | 0",
		"m1-read | architect | builder | 10:00:00.000Z | 10:00:01.000Z | 1 | 0",
		"m3-question | builder | architect | 10:07:00.000Z | 10:07:00.000Z | 0 | 0",
		"m4-answer | architect | builder | 10:08:00.000Z | 10:08:00.000Z | 0 | 0",
		"m6-bounce | system | architect | 10:10:30.000Z | 10:10:30.000Z | 0 | 0",
		"m12-bounce | system | builder | 10:54:00.000Z | 10:54:00.000Z | 0 | 0",
	},
	"throughput_by_hour": {
		"10:00Z | 12 | 11 | 3 | 2",
		"11:00Z | 4 | 0 | 0 | 0",
	},
	"trace_disagrees": {
		"m7-climber | cancelled | delivered",
	},
	"unanswered": {
		"m2-unanswered | architect | builder | 10:06:10.000Z | 6830",
	},
	"unread": {
		"builder | m2-unanswered | 10:06:10.000Z | 6830",
		"builder | m4-answer | 10:08:00.000Z | 6720",
		"architect | m6-bounce | 10:10:30.000Z | 6570",
		"architect | m10-again | 10:40:00.000Z | 4800",
		"builder | m12-bounce | 10:54:00.000Z | 3960",
	},
	"who_changed": {
		"first | created | 16 | 11:59:00.000Z",
		"first | claimed | 10 | 11:57:00.000Z",
		"first | delivered | 10 | 10:54:00.000Z",
		"first | attempt_failed | 8 | 11:57:00.000Z",
		"first | overdue | 2 | 11:57:00.000Z",
		"first | read | 2 | 10:07:00.000Z",
		"first | acknowledged | 1 | 10:07:00.000Z",
		"first | adopted | 1 | 10:41:00.000Z",
		"first | expired | 1 | 10:54:00.000Z",
		"first | failed | 1 | 10:10:30.000Z",
		"first | released | 1 | 10:30:00.000Z",
		"intruder | delivered | 1 | 10:05:00.000Z",
		"stuck | claimed | 3 | 11:58:00.000Z",
	},
}

// day shortens the times of the second day.
const day = "2026-01-02T"

func wantSame(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n  %s\nwant\n  %s", what, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// TestAuditsTellAKnownHistory asks every audit about a history whose every event is known.
func TestAuditsTellAKnownHistory(t *testing.T) {
	t.Parallel()
	h := knownHistory(t)
	names := []string{"commands_by_duration"} // first, since asking is a command too
	for _, a := range audits {
		if a.Name != names[0] {
			names = append(names, a.Name)
		}
	}
	for _, name := range names {
		want, ok := wantRows[name]
		if !ok || len(want) == 0 {
			t.Errorf("%s: the known history has nothing for it", name)
		}
		rows := h.audit(name)
		for i := range rows {
			rows[i] = strings.ReplaceAll(rows[i], day, "")
		}
		wantSame(t, name, rows, want)
	}
}

// TestAuditParams gives the audits other parameters than their defaults.
func TestAuditParams(t *testing.T) {
	t.Parallel()
	h := knownHistory(t)
	for _, c := range []struct {
		name   string
		params []string
		rows   int
	}{
		{"failed_last_day", []string{"48"}, 4}, // the typo of two days ago, too
		{"failed_last_day", []string{"1"}, 0},
		{"overdue", []string{"10"}, 0}, // it waits for 10 minutes, not longer
		{"overdue", []string{"9"}, 1},
		{"overdue", []string{"0"}, 4}, // not the one by hand: nobody knows since when
		{"slowest_deliveries", []string{"1"}, 1},
		{"busiest_pairs", []string{"2"}, 2},
		{"busiest_pairs", []string{"0"}, 0},
		{"never_acknowledged", []string{"115"}, 0},
		{"never_acknowledged", []string{"114"}, 1},
		{"unanswered", []string{"answer"}, 1},
		{"unanswered", []string{"' OR 1=1 --"}, 0},
		{"throughput_by_hour", []string{"1"}, 1},
		{"retries_by_recipient", []string{"1"}, 1},
		{"command_errors", []string{"48"}, 2},
		{"who_changed", []string{"0"}, 0},
	} {
		if rows := h.audit(c.name, c.params...); len(rows) != c.rows {
			t.Errorf("%s %q: %d rows; want %d:\n  %s", c.name, c.params, len(rows), c.rows, strings.Join(rows, "\n  "))
		}
	}
	for _, bad := range []string{`["x"]`, `["-1"]`, `["1.5"]`, `[""]`, `["24","24"]`, `["9999999999999999999"]`} {
		h.refused("sql", `{"named":"failed_last_day","params":`+bad+`}`, orchestrator.InvalidParams)
	}
	h.refused("sql", `{"named":"backlog","params":["1"]}`, orchestrator.InvalidParams)
	h.refused("sql", `{"named":"backlog","query":"SELECT 1"}`, orchestrator.InvalidParams)
	if e := h.refused("sql", `{"named":"backlogs"}`, orchestrator.NotFound); !strings.Contains(e.Error(), "backlog") {
		t.Errorf("the near name is missing: %v", e)
	}
}

// TestAuditsAfterADeliveryRun: what was done by hand is adopted, and the trace agrees with the table again.
func TestAuditsAfterADeliveryRun(t *testing.T) {
	t.Parallel()
	h := knownHistory(t)
	h.deliver()
	wantSame(t, "messages_without_trace", h.audit("messages_without_trace"), []string{})
	wantSame(t, "trace_disagrees", h.audit("trace_disagrees"), []string{})
}

// TestAuditsAfterRetention: attempts are still counted when their messages have been deleted.
func TestAuditsAfterRetention(t *testing.T) {
	t.Parallel()
	h := knownHistory(t)
	h.clock.advance(8 * 24 * time.Hour)
	ask[any](h.fixture, "clear_old", `{}`)
	wantSame(t, "retries_by_recipient", h.audit("retries_by_recipient", "240"), []string{
		" | 5 | 3 | the folder DIR/late does not exist; make it, and the next attempt gets through",
		"archivist | 3 | 1 | the folder DIR/never does not exist; make it, and the next attempt gets through",
	})
}

// TestAuditsAreDocumented holds docs/audits.md to the files. With -update it is written.
func TestAuditsAreDocumented(t *testing.T) {
	t.Parallel()
	file := filepath.Join("..", "..", "docs", "audits.md")
	want := documentation()
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not what the files of audits/ say; go test ./commands/admin -run Documented -update", file)
	}
}

const documentHead = `# Audit queries

Everything that happens to a message leaves a row in ` + "`message_trace`" + `, every command a row in ` + "`command_trace`" + `, and ` + "`schema.sql`" + `
explains both. So an audit is a SELECT. These ship with mailroom:

    mailroom sql --named failed_last_day
    mailroom sql --named failed_last_day --params 72
    mailroom sql --list

A query of your own works the same way, on a connection that can do nothing but read:

    mailroom sql "SELECT event, count(*) FROM message_trace GROUP BY event"

Each query below is a file in ` + "`commands/admin/audits/`" + `. In it ?1 is the present time and ?2 the parameter, so that it can
be copied into any other SQLite client. Times are UTC.

This page is written from the heads of those files: ` + "`go test ./commands/admin -run Documented -update`" + `.
`

// documentation writes docs/audits.md.
func documentation() string {
	var b strings.Builder
	b.WriteString(documentHead)
	for _, a := range audits {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n%s\n\n", a.Name, a.About, a.Notes)
		for _, p := range a.Params {
			fmt.Fprintf(&b, "- parameter: `%s`, otherwise %s\n", p.Name, p.Default)
		}
		fmt.Fprintf(&b, "- columns: `%s`\n", strings.Join(a.Columns, "`, `"))
	}
	return b.String()
}
