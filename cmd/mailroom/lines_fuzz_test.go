package main

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"mailroom/commands/surface/cli"
	"mailroom/orchestrator/orchestratortest/corpus"
)

const goodLine = `{"sender":"a","recipient":"b","message_type":"note","payload":{"n":1.10,"text":"x"},"idempotency_key":""}`

// lineSeeds are inputs of `send --stdin`, valid and invalid.
var lineSeeds = []string{
	goodLine, goodLine + "\n\n  \r\n" + goodLine + "\n", goodLine + "\nx\n" + goodLine,
	`{"sender":"a","recipient":"g","message_type":"note","idempotency_key":"k"}` + "\n" +
		`{"sender":"a","recipient":"zed","message_type":"note"}`,
	`{"SENDER":"A","Recipient":"B","message_type":"task","priority":-9,"ttl_seconds":60,"max_retries":0}` + "\r\n{\n}",
	`{"sender":"../a","recipient":"b","message_type":"","payload":"\ud800"}` + "\n[]\nnull\n" + `"`,
	"\x00\n\xff\n\ufeff{}\n\u0085\n\v\n\f",
}

// sendDesk is a database to which lines are sent, with agents a and b and a group g of both.
type sendDesk struct {
	db    string
	plain *sql.DB
	seen  int64 // the last row that was examined
}

func newSendDesk(t testing.TB) *sendDesk {
	t.Helper()
	d := &sendDesk{db: filepath.Join(t.TempDir(), "mailroom.db")}
	for _, words := range []string{"init", "agent add a", "agent add b", "group set g a b"} {
		if out, status := d.run("", strings.Fields(words)...); status != 0 {
			t.Fatalf("%s: exit status %d: %s", words, status, out)
		}
	}
	var err error
	if d.plain, err = sql.Open("sqlite3", "file:"+d.db+"?_busy_timeout=20000"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.plain.Close() })
	return d
}

// run runs one command line of the program within this process.
func (d *sendDesk) run(in string, words ...string) (out string, status int) {
	var answers, said bytes.Buffer
	p := cli.Program{
		Config: config(), In: strings.NewReader(in), Out: &answers, Err: &said,
		Getenv: func(string) string { return "" },
	}
	status = p.Run(context.Background(), append([]string{"mailroom", "--db", d.db}, words...))
	return answers.String() + said.String(), status
}

// lineAnswer is the answer to a line.
type lineAnswer struct {
	Success    bool
	Error      string
	Message    string
	Line       int
	MessageID  string   `json:"message_id"`
	MessageIDs []string `json:"message_ids"`
}

// ids returns the messages that are kept according to the answer: sent, or as a dead letter.
func (a *lineAnswer) ids() []string {
	if len(a.MessageIDs) > 0 {
		return a.MessageIDs
	}
	if a.MessageID != "" {
		return []string{a.MessageID}
	}
	return nil
}

// check checks that every line that is not blank is answered once, in order: a rejected line with its number, a code
// and a message; an accepted line with its own message. The messages in the answers are in the table, and no others.
func (d *sendDesk) check(t *testing.T, in string) (malformed bool) {
	out, status := d.run(in, "send", "--stdin")
	numbers, raws := notBlank(in)
	answers := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	if out == "" {
		answers = nil
	}
	if len(answers) != len(numbers) {
		t.Fatalf("%d lines, %d answers:\n%s", len(numbers), len(answers), out)
	}
	var ids []string
	refused := false
	for i, text := range answers {
		var a lineAnswer
		if err := json.Unmarshal([]byte(text), &a); err != nil {
			t.Fatalf("the answer %q: %v", text, err)
		}
		ids = append(ids, a.ids()...)
		if a.Success {
			d.checkPayload(t, raws[i], a)
			continue
		}
		refused = true
		malformed = malformed || a.Error != "conflict" // a reused key, which may be accepted another time
		if a.Line != numbers[i] || a.Error == "" || a.Error == "internal" || a.Message == "" {
			t.Fatalf("line %d is refused with %s", numbers[i], text)
		}
	}
	if want := map[bool]int{false: 0, true: 65}[refused]; status != want {
		t.Fatalf("exit status %d; want %d:\n%s", status, want, out)
	}
	d.checkRows(t, ids)
	return malformed
}

// notBlank returns the lines that are not blank, apart from a byte order mark, with their numbers.
func notBlank(in string) (numbers []int, raws []string) {
	for i, raw := range strings.Split(in, "\n") {
		if strings.TrimSpace(strings.TrimPrefix(raw, "\ufeff")) != "" {
			numbers, raws = append(numbers, i+1), append(raws, raw)
		}
	}
	return numbers, raws
}

// checkPayload checks that an accepted line has its own payload in the table.
func (d *sendDesk) checkPayload(t *testing.T, raw string, a lineAnswer) {
	t.Helper()
	var line struct{ Payload json.RawMessage }
	var want bytes.Buffer
	if err := json.Unmarshal([]byte(raw), &line); err != nil {
		t.Fatalf("%q is no JSON, and was taken: %v", raw, err)
	}
	if line.Payload == nil {
		line.Payload = json.RawMessage("null")
	}
	if err := json.Compact(&want, line.Payload); err != nil {
		t.Fatal(err)
	}
	for _, id := range a.ids() {
		var got string
		if err := d.plain.QueryRow(`SELECT payload FROM agent_message WHERE message_id = ?`,
			id).Scan(&got); err != nil || got != want.String() {
			t.Fatalf("%s has the payload %q, %v; the line is %q", id, got, err, raw)
		}
	}
	if len(a.ids()) == 0 {
		t.Fatalf("%q was taken, and no message is named", raw)
	}
}

// checkRows checks that the new rows are those in the answers. An idempotent send may refer to an old row.
func (d *sendDesk) checkRows(t *testing.T, ids []string) {
	t.Helper()
	rows, err := d.plain.Query(`SELECT seq, message_id FROM agent_message WHERE seq > ? ORDER BY seq`, d.seen)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		if err := rows.Scan(&d.seen, &id); err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(ids, id) {
			t.Errorf("the message %s is in the table, and no answer speaks of it", id)
		}
	}
	for _, id := range ids {
		var n int
		if err := d.plain.QueryRow(`SELECT count(*) FROM agent_message WHERE message_id = ?`,
			id).Scan(&n); err != nil || n != 1 {
			t.Errorf("an answer speaks of %s, which is there %d times (%v)", id, n, err)
		}
	}
}

func FuzzSendLines(f *testing.F) {
	for _, seed := range lineSeeds {
		f.Add(seed)
	}
	desk := newSendDesk(f)
	f.Fuzz(func(t *testing.T, in string) { desk.check(t, in) })
}

// TestMalformedLines replays the stored inputs of FuzzSendLines.
func TestMalformedLines(t *testing.T) {
	t.Parallel()
	desk := newSendDesk(t)
	corpus.Target{
		Name: "FuzzSendLines", Package: "mailroom/cmd/mailroom", Seeds: lineSeeds,
		Tokens: []string{"\n", "\r\n", `"`, `{`, `}`, `\`, `,`, "\x00", "\xff", "null", "\n" + goodLine + "\n",
			`"priority":99,`, `"recipient":"zed",`},
		Check: desk.check,
	}.Replay(t, 2500)
}

// TestCorporaAreLarge checks that at least 10,000 malformed inputs are stored in all. The test of each corpus checks
// that they are malformed.
func TestCorporaAreLarge(t *testing.T) {
	t.Parallel()
	total := 0
	for target, folder := range map[string]string{
		"FuzzDecode": "commands/parameter", "FuzzName": "orchestrator/agents",
		"FuzzJSONLHealing": "orchestrator/transport",
		"FuzzSendLines":    "cmd/mailroom",
		"FuzzJSONRPC":      "commands/surface/web", "FuzzCommandBody": "commands/surface/web",
	} {
		inputs, err := corpus.Load(filepath.Join("..", "..", filepath.FromSlash(folder), corpus.File(target)))
		if err != nil {
			t.Error(err)
		}
		total += len(inputs)
	}
	if total < 10_000 {
		t.Errorf("%d malformed inputs are kept; want at least 10,000", total)
	}
}
