package letter_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/letter"
)

// examples holds the messages of document 002: an id, a sender, a recipient, a type, and the document's payload for
// the type.
var examples = []struct{ id, from, to, kind, payload string }{
	{"msg-developer-20250123-120000-001", "pm", "developer", "task_assign",
		`{"taskId":"feat-001","title":"Feature title","description":"Description...","acceptanceCriteria":["one","two"],"worktree":"path/to/worktree"}`},
	{"msg-qa-20250123-120005-001", "developer", "qa", "implementation_complete",
		`{"taskId":"feat-001","summary":"Brief summary","commitHash":"abc123","branch":"developer-worktree","filesModified":["file1.ts","file2.ts"]}`},
	{"msg-pm-20250123-120010-001", "qa", "pm", "validation_passed",
		`{"taskId":"feat-001","results":{"typecheck":"pass","lint":"pass","test":"pass","build":"pass"}}`},
	{"msg-developer-20250123-120010-001", "qa", "developer", "bug_report",
		`{"taskId":"feat-001","bugs":[{"file":"file.ts","line":10,"issue":"Bug description"}]}`},
	{"msg-pm-20250123-120011-001", "developer", "pm", "question",
		`{"taskId":"feat-001","question":"Question text..."}`},
	{"msg-developer-20250123-120012-001", "pm", "developer", "answer",
		`{"questionId":"...","answer":"Answer text..."}`},
	{"msg-watchdog-20250123-120013-001", "developer", "watchdog", "status_update",
		`{"agent":"developer","status":"working","taskId":"feat-001"}`},
}

// taken returns the row that the router makes of a letter, with the columns that every row has.
func taken(l letter.Letter) *orchestrator.Message {
	d := l.Draft()
	if d.SessionID == "" {
		d.SessionID = "default"
	}
	return &orchestrator.Message{
		ID: l.ID, Sender: strings.ToLower(d.Sender), Recipient: strings.ToLower(d.Recipient), Type: d.Type,
		Payload:  compacted(d.Payload),
		Priority: d.Priority, Summary: d.Summary, Context: d.Context, Action: d.Action, ThreadID: d.ThreadID,
		SessionID: d.SessionID, ReplyTo: d.ReplyTo, Origin: d.Origin, CreatedAt: "2026-01-01T00:00:00.000Z",
		ExpiresAt: "2026-01-08T00:00:00.000Z",
	}
}

// compacted returns a payload as it is stored.
func compacted(payload json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	_ = json.Compact(&b, payload)
	return b.Bytes()
}

// mustReturn checks that a file is written as it was read, also if the row lacks the message that it answers.
func mustReturn(t *testing.T, text string) {
	t.Helper()
	l, err := letter.Parse([]byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	m := taken(l)
	unknown := *m
	unknown.ReplyTo = ""
	for _, l := range []letter.Letter{l, letter.Of(m), letter.Of(&unknown)} {
		if got, err := l.Encode(); err != nil || string(got) != text {
			t.Errorf("%v; it leaves as\n%s\nand came as\n%s", err, got, text)
		}
	}
}

// TestLetterForm checks the document's complete message, byte by byte.
func TestLetterForm(t *testing.T) {
	t.Parallel()
	m := orchestrator.Message{
		ID: "msg-developer-20250123-120000-001", Sender: "pm", Recipient: "developer", Type: "question",
		Payload: json.RawMessage(`{"b":1.10,"a":["<&>",1e400],"c":{}}`), CreatedAt: "2025-01-23T12:00:00.123Z",
		Priority: 9,
	}
	want := `{
  "id": "msg-developer-20250123-120000-001",
  "from": "pm",
  "to": "developer",
  "type": "question",
  "priority": "urgent",
  "payload": {
    "b": 1.10,
    "a": [
      "<&>",
      1e400
    ],
    "c": {}
  },
  "timestamp": "2025-01-23T12:00:00.1230000Z",
  "status": "pending",
  "replyTo": null
}
`
	if got, err := letter.Of(&m).Encode(); err != nil || string(got) != want {
		t.Errorf("%v\n%s", err, got)
	}
	m.Payload, m.ReplyTo, m.Summary, m.Context, m.Action = json.RawMessage("7"), "msg-0", "s", "c", "queue"
	// The router sets this expiry, because the message has no TTL.
	m.ThreadID, m.SessionID, m.MulticastID, m.Group, m.ExpiresAt = "t", "crew", "mc-1", "all",
		"2025-01-24T12:00:00.000Z"
	_, tail, _ := strings.Cut(want, "  \"timestamp\"")
	tail = strings.Replace("  \"timestamp\""+tail, "null\n}\n", `"msg-0",
  "summary": "s",
  "context": "c",
  "action": "queue",
  "thread_id": "t",
  "session_id": "crew",
  "multicast_id": "mc-1",
  "multicast_target": "all"
}
`, 1)
	got, err := letter.Of(&m).Encode()
	if err != nil || !strings.HasSuffix(string(got), "  \"payload\": 7,\n"+tail) {
		t.Errorf("%v\n%s", err, got)
	}
	mustReturn(t, string(got))
}

func TestExamplesReturnUnchanged(t *testing.T) {
	t.Parallel()
	for _, e := range examples {
		l := letter.Letter{
			ID: e.id, From: e.from, To: e.to, Type: e.kind, Priority: "high", Payload: json.RawMessage(e.payload),
			About: letter.About{Timestamp: "2025-01-23T12:00:00.0000001Z", Status: "pending"},
		}
		text, err := l.Encode()
		if err != nil {
			t.Fatal(err)
		}
		mustReturn(t, string(text))
		if read, err := letter.Parse(text); err != nil || strings.Contains(read.Origin(), `"file"`) {
			t.Errorf("%v; a file of our own layout is kept a second time: %s", err, read.Origin())
		}
	}
}

// TestForeignFilesReturnUnchanged checks files with other layouts and additional content.
func TestForeignFilesReturnUnchanged(t *testing.T) {
	t.Parallel()
	const core = `"id":"m-1","from":"pm","to":"qa","type":"x","payload":{}`
	for _, text := range []string{
		`{` + core + `}`,
		"\ufeff{\r\n    " + core + "\r\n}\r\n",
		`{"payload": { "n": 1.10, "n": 2 }, "type":"x","to":"QA","from":"PM","id":"m-1"}`,
		`{` + core + `,"timestamp":null,"status":null,"priority":null,"replyTo":null}`,
		`{` + core + `,"timestamp":"yesterday","status":"read","replyTo":"msg-9","priority":"low"}`,
		`{` + core + `,"zebra":{"b":1,"a":1e400},"IDs":"another","attempt":12345678901234567890.10}`,
		`{` + core + `,"context":{"file":"a.ts"},"action":"deploy","summary":7,"thread_id":"","session_id":null,"expires_at":"soon"}`,
		`{` + core + `,"action":"interrupt","summary":"s","multicast_id":"mc","multicast_target":"all"}`,
		`{` + core + `,"note":"\ud83d\ude00 \u0041 <b> \u2028"}`,
	} {
		mustReturn(t, text)
	}
}

// TestHalfPairsLeaveMended checks that half of a surrogate pair, which an earlier program stored under an unknown
// key, is written as U+FFFD.
func TestHalfPairsLeaveMended(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{"id":"m","from":"a","to":"b","type":"x","payload":{},"zebra":{"\ud83d":1}}`,
		"{\n  \"id\": \"m\",\n  \"from\": \"a\",\n  \"to\": \"b\",\n  \"type\": \"x\",\n  \"payload\": {},\n  \"zebra\": \"\\ud83d\"\n}\n",
	} {
		l, err := letter.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		left, err := l.Encode()
		if want := strings.ReplaceAll(text, `\ud83d`, `\ufffd`); err != nil || string(left) != want {
			t.Errorf("%v: it leaves as\n%s\nwant\n%s", err, left, want)
		}
	}
}

// TestChangedRowLeavesAsItIs checks that a row that was changed since its import is written with its present values.
// The other contents of the file are kept.
func TestChangedRowLeavesAsItIs(t *testing.T) {
	t.Parallel()
	l, err := letter.Parse([]byte(`{"id":"m","from":"a","to":"b","type":"x","payload":1,"timestamp":"T","zebra":1}`))
	if err != nil {
		t.Fatal(err)
	}
	m := taken(l)
	m.Payload = json.RawMessage(`2`)
	got, err := letter.Of(m).Encode()
	if err != nil {
		t.Fatal(err)
	}
	var now struct {
		Payload   int
		Timestamp string
		Zebra     int
	}
	if err := json.Unmarshal(got, &now); err != nil || now.Payload != 2 || now.Timestamp != "T" || now.Zebra != 1 {
		t.Errorf("%v\n%s", err, got)
	}
}

func TestParseNamesTheFault(t *testing.T) {
	t.Parallel()
	const core = `"id":"m-1","from":"pm","to":"qa","type":"x","payload":{}`
	for text, want := range map[string]string{
		``:                                             "the file is empty",
		" \n":                                          "the file is empty",
		`{` + core:                                     "the file ends before its JSON is complete",
		`{"id":"m-1","fr`:                              "the file ends before its JSON is complete",
		`{` + core + `}{}`:                             "the file contains text after the JSON object",
		`[` + core + `]`:                               "the file must contain a JSON object",
		`{` + core + `,}`:                              "the file is not valid JSON",
		`{` + core + `,"id":"m-2"}`:                    "id: the key occurs twice",
		`{` + core + `,"From":"pm"}`:                   "From: the key occurs twice; the other spelling is from",
		`{` + core + `,"zA":1,"Za":1}`:                 "Za: the key occurs twice; the other spelling is zA",
		`{` + core + `,"z":1,"z":1}`:                   "z: the key occurs twice",
		`{` + core + ",\"z\":\"\xff\"}":                "the file must be UTF-8",
		`{` + core + ",\"z\":\"\x00\"}":                "the file must not contain NUL",
		"\xff\xfe{\x00}\x00":                           "the file must be UTF-8, but is UTF-16",
		"\ufeff\ufeff{" + core + `}`:                   "the file is not valid JSON",
		`{"from":"a","to":"b","type":"x"}`:             "id: missing",
		`{"id":"m","from":"a","to":"b","type":"x"}`:    "payload: missing",
		`{"id":"m","to":"b","type":"x","payload":1}`:   "from: missing",
		`{"id":"m","from":"a","type":"x","payload":1}`: "to: missing",
		`{"id":"m","from":"a","to":null,"type":"x","payload":1}`:                               "to: missing",
		`{"id":"m","from":"a","to":"b","type":"","payload":1}`:                                 "type: missing",
		`{"id":7,"from":"a","to":"b","type":"x","payload":1}`:                                  "id: the value must be text, but is 7",
		`{"id":"\u0000","from":"a","to":"b","type":"","payload":1}`:                            "id: the value must not contain NUL",
		`{"id":"\ud83d","from":"a","to":"b","type":"x","payload":1}`:                           "id: the value contains invalid characters",
		`{"id":"` + strings.Repeat("m", 257) + `","from":"a","to":"b","type":"x","payload":1}`: "id: the value has 257 bytes",
		`{` + core + `,"priority":"critical"}`:                                                 `priority: "critical" is not one of low, normal, high, urgent`,
		`{` + core + `,"priority":1}`:                                                          "priority: the value must be text, but is 1",
		`{` + core + `,"replyTo":{}}`:                                                          "replyTo: the value must be text, but is {}",
		`{` + core + `,"status":true}`:                                                         "status: the value must be text, but is true",
		`{` + core + `,"z":` + strings.Repeat("[", 20_000) + `}`:                               "the file is not valid JSON",
	} {
		_, err := letter.Parse([]byte(text))
		var e *orchestrator.Error
		if !errors.As(err, &e) || e.Code != orchestrator.InvalidParams || !strings.HasPrefix(e.Message, want) {
			t.Errorf("%.80q: %v; want %s", text, err, want)
		}
	}
}

// TestEncodeRefusesWhatJSONCannotHold checks that Encode refuses values that JSON cannot represent, and does not
// change them.
func TestEncodeRefusesWhatJSONCannotHold(t *testing.T) {
	t.Parallel()
	good := orchestrator.Message{ID: "m", Sender: "a", Recipient: "b", Payload: json.RawMessage("1")}
	for want, change := range map[string]func(m *orchestrator.Message){
		"id must be UTF-8":               func(m *orchestrator.Message) { m.ID = "m\xff" },
		"replyTo must be UTF-8":          func(m *orchestrator.Message) { m.ReplyTo = "\xff" },
		"summary must be UTF-8":          func(m *orchestrator.Message) { m.Summary = "\xff" },
		"the payload must be UTF-8":      func(m *orchestrator.Message) { m.Payload = json.RawMessage("\"\xff\"") },
		"the payload must be valid JSON": func(m *orchestrator.Message) { m.Payload = json.RawMessage(`{"half":`) },
	} {
		m := good
		change(&m)
		if got, err := letter.Of(&m).Encode(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\n%s; want %s", err, got, want)
		}
	}
}

// TestStrangeOrigins checks that a hand-written value in the column origin is ignored and does no harm.
func TestStrangeOrigins(t *testing.T) {
	t.Parallel()
	m := orchestrator.Message{ID: "m", Sender: "a", Recipient: "b", Type: "x", Payload: json.RawMessage("1"),
		CreatedAt: "2025-10-26 10:30:00"}
	want, err := letter.Of(&m).Encode()
	if err != nil || !strings.Contains(string(want), `"2025-10-26 10:30:00"`) {
		t.Fatalf("%v\n%s", err, want)
	}
	for _, origin := range []string{"x", "[]", "null", "{}", `{"more":7}`, `{"more":"{"}`, `{"file":"{"}`, `{"file":7}`,
		`{"file":"{\"id\":\"other\"}"}`} {
		m.Origin = origin
		if got, err := letter.Of(&m).Encode(); err != nil || string(got) != string(want) {
			t.Errorf("%s: %v\n%s", origin, err, got)
		}
	}
}

func TestTimestamp(t *testing.T) {
	t.Parallel()
	at := time.Date(2025, 1, 23, 13, 0, 0, 123456789, time.FixedZone("", 3600))
	if got := letter.Of(&orchestrator.Message{CreatedAt: at.Format(time.RFC3339Nano)}).Timestamp; got != "2025-01-23T12:00:00.1234567Z" {
		t.Error(got)
	}
}

func TestFileNames(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"msg-qa-20250123-120005-001": "msg-qa-20250123-120005-001.json", "A.b_c": "A.b_c.json", "x.json": "x.json.json",
		"-rf": "-rf.json", ".": "%2E.json", "..": "%2E..json", ".hidden": "%2Ehidden.json",
		"../../etc/passwd": "%2E.%2F..%2Fetc%2Fpasswd.json",
		"a b\n":            "a%20b%0A.json", "%2E": "%252E.json", "ä\xff\x00": "%C3%A4%FF%00.json",
		strings.Repeat("a", 250): strings.Repeat("a", 250) + ".json",
	} {
		if got, err := letter.FileName(id); got != want || err != nil {
			t.Errorf("%q: %q, %v; want %q", id, got, err, want)
		}
	}
	if got, err := letter.FileName(""); err == nil {
		t.Errorf("no id: %q", got)
	}
	seen := map[string]string{}
	for _, id := range []string{
		strings.Repeat("a", 251), strings.Repeat("a", 252), strings.Repeat("/", 84), strings.Repeat("/", 85),
		strings.Repeat("/", 86), "/", "%2F", "",
	} {
		name, _ := letter.FileName(id)
		if other, taken := seen[name]; taken || len(name) > 255 {
			t.Errorf("%q and %q are both %q", id, other, name)
		}
		seen[name] = id
	}
}

// FuzzParse checks that every letter that Parse accepts is written unchanged, also through a row, and has its own
// file name.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"id":"m-1","from":"PM","to":"qa","type":"x","payload":{"n":1.10},"context":1,"z":[{}],"replyTo":null}`))
	f.Add([]byte("\ufeff{\"id\":\"..\",\"from\":\"a\",\"to\":\"b\",\"type\":\"\\u2028\",\"payload\":null,\"priority\":\"urgent\"}\r\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := letter.Parse(text)
		if err != nil {
			return
		}
		mustReturn(t, string(text))
		if name, err := letter.FileName(l.ID); err != nil || len(name) > 255 || strings.ContainsAny(name, "/\x00") ||
			name[0] == '.' {
			t.Errorf("the file name of %q is %q, %v", l.ID, name, err)
		}
	})
}
