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

	"mailroom/commands/admin/inspection"
	"mailroom/orchestrator"
)

var update = flag.Bool("update", false, "write docs/audits.md")

var traceIDs = regexp.MustCompile(`\b[0-9a-f]{32}\b`)

// audit runs a named query and returns its rows, with cells separated by " | " and labels in place of ids.
func (h *history) audit(name string, params ...string) []string {
	h.t.Helper()
	quoted := "[]"
	if len(params) > 0 {
		quoted = `["` + strings.Join(params, `","`) + `"]`
	}
	r := ask[inspection.SQLResult](h.fixture, "sql", `{"named":"`+name+`","params":`+quoted+`}`)
	all := inspection.Audits()
	a := all[slices.IndexFunc(all, func(a inspection.Audit) bool { return a.Name == name })]
	if !slices.Equal(r.Columns, a.Columns) {
		h.t.Errorf("%s: the columns are %q; its head says %q", name, r.Columns, a.Columns)
	}
	labels := strings.NewReplacer(h.labels...)
	rows := []string{}
	for _, row := range r.Rows.Values() {
		cells := make([]string, len(row))
		for i, v := range row {
			cells[i] = fmt.Sprint(v)
		}
		rows = append(rows, traceIDs.ReplaceAllString(labels.Replace(strings.Join(cells, " | ")), "TRACE"))
	}
	return rows
}

// wantRows holds the rows of every audit over the known history, in the order of the columns, without the day.
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
		"10:31:00.000Z | send |  | first | unknown_recipient | unknown recipient \"bilder\". Did you mean builder? Mailroom keeps the message as dead letter m9-typo | TRACE",
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
		"unknown_recipient: unknown recipient \"bilder\" | bilder | 2 | 10:31:00.000Z",
		"not delivered before it expired at 10:53:00.000Z | archivist | 1 | 10:54:00.000Z",
		"the folder DIR/late does not exist; create it before the next attempt | clerk | 1 | 10:10:30.000Z",
	},
	"duplicate_deliveries": {
		"m1-read | 10:00:01.000Z | 10:05:00.000Z | first | intruder",
	},
	"failed_last_day": {
		"10:54:00.000Z | m11-expired | builder | archivist | note | expired | 0 | not delivered before it expired at 10:53:00.000Z",
		"10:31:00.000Z | m9-typo | architect | bilder | note | failed | 0 | unknown_recipient: unknown recipient \"bilder\"",
		"10:10:30.000Z | m5-given-up | architect | clerk | report | failed | 1 | the folder DIR/late does not exist; create it before the next attempt",
	},
	"leases": {
		"m15-plotted | plotter | stuck | 11:59:00.000Z | 1 | 0 | 0",
		"m14-printed | printer | stuck | 12:03:30.000Z | 0 | 0 | 0",
	},
	"messages_without_trace": {
		"by-hand | architect | builder | pending",
	},
	"never_acknowledged": {
		"m1-read | architect | builder | 10:05:00.000Z",
	},
	"overdue": {
		"m13-climbing | builder | archivist | retry | 11:50:00.000Z | 600 | 11:59:00.000Z | the folder DIR/never does not exist; create it before the next attempt",
	},
	"retries_by_recipient": {
		"archivist | 4 | 2 | the folder DIR/never does not exist; create it before the next attempt",
		"clerk | 4 | 2 | the folder DIR/late does not exist; create it before the next attempt",
	},
	"shown": {},
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

// day is the beginning of the times on the second day.
const day = "2026-01-02T"

func wantSame(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n  %s\nwant\n  %s", what, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

// TestAuditsTellAKnownHistory runs every audit over a history in which every event is known.
func TestAuditsTellAKnownHistory(t *testing.T) {
	t.Parallel()
	h := knownHistory(t)
	names := []string{"commands_by_duration"} // first, because each audit is a command too
	for _, a := range inspection.Audits() {
		if a.Name != names[0] {
			names = append(names, a.Name)
		}
	}
	for _, name := range names {
		want, ok := wantRows[name]
		if !ok || len(want) == 0 && name != "shown" { // TestUnreadAfterAReadingLease has rows for it
			t.Errorf("%s: the known history has nothing for it", name)
		}
		rows := h.audit(name)
		for i := range rows {
			rows[i] = strings.ReplaceAll(rows[i], day, "")
		}
		wantSame(t, name, rows, want)
	}
}

// TestAuditParams runs audits with parameters other than their defaults.
func TestAuditParams(t *testing.T) {
	t.Parallel()
	h := knownHistory(t)
	for _, c := range []struct {
		name   string
		params []string
		rows   int
	}{
		{"failed_last_day", []string{"48"}, 4}, // also the mistyped message of two days ago
		{"failed_last_day", []string{"1"}, 0},
		{"overdue", []string{"10"}, 0}, // it has waited for 10 minutes, not longer
		{"overdue", []string{"9"}, 1},
		{"overdue", []string{"0"}, 4}, // not the one inserted by hand, whose age is unknown
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

// TestUnreadAfterAReadingLease checks that messages handed out under a lease are listed as unread from the end of the
// lease, even if no process has taken them back yet. During the lease, and after an acknowledgement, they are not
// listed.
func TestUnreadAfterAReadingLease(t *testing.T) {
	t.Parallel()
	h := knownHistory(t)
	before := h.audit("unread")
	ask[any](h.fixture, "wait", `{"recipient":"builder","timeout":0,"lease":60}`)
	left := []string{before[2], before[3]} // of the architect
	wantSame(t, "under the lease", h.audit("unread"), left)
	holders := h.audit("shown")
	for i, row := range holders {
		holders[i] = strings.Join(strings.Split(row, " | ")[:4], " ")
	}
	wantSame(t, "shown", holders, []string{
		"by-hand builder wait ", "m2-unanswered builder wait ", "m4-answer builder wait ", "m12-bounce builder wait ",
		"m16-waiting builder wait ",
	})
	h.clock.Advance(time.Hour)
	rows := h.audit("unread")
	names := make([]string, len(rows))
	for i, row := range rows {
		names[i] = strings.Join(strings.Split(row, " | ")[:2], " ")
	}
	wantSame(t, "after it", names, []string{
		"builder m2-unanswered", "builder m4-answer", "architect m6-bounce", "architect m10-again",
		"builder m12-bounce", "builder m16-waiting", "builder by-hand",
	})
}

// TestAuditsAfterADeliveryRun checks that changes made by hand are adopted, and that the trace agrees with the table
// again.
func TestAuditsAfterADeliveryRun(t *testing.T) {
	t.Parallel()
	h := knownHistory(t)
	h.deliver()
	wantSame(t, "messages_without_trace", h.audit("messages_without_trace"), []string{})
	wantSame(t, "trace_disagrees", h.audit("trace_disagrees"), []string{})
}

// TestAuditsAfterRetention checks that attempts are still counted after their messages were deleted.
func TestAuditsAfterRetention(t *testing.T) {
	t.Parallel()
	h := knownHistory(t)
	h.clock.Advance(8 * 24 * time.Hour)
	ask[any](h.fixture, "clear_old", `{}`)
	wantSame(t, "retries_by_recipient", h.audit("retries_by_recipient", "240"), []string{
		" | 5 | 3 | the folder DIR/late does not exist; create it before the next attempt",
		"archivist | 3 | 1 | the folder DIR/never does not exist; create it before the next attempt",
	})
}

// TestAuditsAreDocumented compares docs/audits.md with the files. With -update, it writes docs/audits.md.
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

const documentHead = `# Audits

An audit is a SELECT query over the database. Mailroom writes a row to ` + "`message_trace`" + ` for everything that happens to a
message. It writes a row to ` + "`command_trace`" + ` for every command, except for scheduled runs that change nothing.
[schema.sql](../schema.sql) explains both tables.

Mailroom includes many audits. To list them, run ` + "`mailroom sql --list`" + `. To run an audit, pass its name with
` + "`--named`" + `. To set its parameter, add ` + "`--params`" + `:

` + "```" + `console
$ mailroom init
...
$ mailroom sql --list
NAME                    PARAMS                 WHAT IT ANSWERS
backlog                                        Undelivered messages by recipient.
...
$ mailroom sql --named failed_last_day
ended_at  message_id  sender  recipient  message_type  status  retries  reason
$ mailroom sql --named failed_last_day --params 72
ended_at  message_id  sender  recipient  message_type  status  retries  reason
` + "```" + `

You can also run your own query. Mailroom allows only read-only queries:

` + "```" + `console
$ mailroom agent add bob
...
$ mailroom send bob tests are green
...
$ mailroom deliver_all
...
$ mailroom sql "SELECT event, count(*) FROM message_trace GROUP BY event"
event      count(*)
created    1
delivered  1
$ mailroom sql "SELECT recipient, count(*) FROM agent_message WHERE status = 'retry' GROUP BY recipient"
recipient  count(*)
$ mailroom sql "DELETE FROM agent_message"
mailroom: only queries that read are allowed: not authorized
Use one SELECT over the tables of this database
` + "```" + `

You can also use any other SQLite client:

` + "```" + `console
$ sqlite3 -readonly .mailroom/mailroom.db "SELECT at, event, actor, error FROM message_trace ORDER BY id DESC LIMIT 10"
2026-11-25T23:21:16.236Z|delivered|vm-6982|
2026-11-25T23:21:16.202Z|created|vm-6965|
` + "```" + `

The rest of this page describes the audits. Each audit is a file in ` + "`commands/admin/inspection/audits/`" + `. In the SQL of
an audit, ` + "`?1`" + ` is the current time and ` + "`?2`" + ` is the parameter. On this page, N is the value of the parameter. Times are
in UTC.

` + "`go test ./commands/admin -run Documented -update`" + ` generates this page from the comments at the top of these files.
`

// documentation returns the text of docs/audits.md.
func documentation() string {
	var b strings.Builder
	b.WriteString(documentHead)
	for _, a := range inspection.Audits() {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n%s\n\n", a.Name, a.About, a.Notes)
		for _, p := range a.Params {
			fmt.Fprintf(&b, "- parameter: `%s`, %s by default\n", p.Name, p.Default)
		}
		fmt.Fprintf(&b, "- columns: `%s`\n", strings.Join(a.Columns, "`, `"))
	}
	return b.String()
}
