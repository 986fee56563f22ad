package main

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"mailroom/orchestrator/orchestratortest/enginetest"
)

// canary is a word in every text that the tests below keep secret.
const canary = "Canary"

// askers returns the ways to run a command, with the log level of each process at debug. Each way returns the answer
// or the error.
func (o *office) askers(daemon *serving, logs *os.File) map[string]func(command, params string) string {
	token := o.run("agent", "token", "builder")["token"].(string)
	host := o.command(append(mcpWords("builder", "", false), "--log-level", "debug")...)
	host.Stderr = logs
	session := dialMCP(o.t, &mcp.CommandTransport{Command: host})
	return map[string]func(command, params string) string{
		"invoke": func(command, params string) string {
			cmd := o.command("invoke", command, "-", "--as", "builder", "--log-level", "debug")
			cmd.Stdin, cmd.Stderr = strings.NewReader(params), logs
			out, _ := cmd.Output() // a failure is part of the output
			return string(out)
		},
		"http": func(command, params string) string {
			res, err := daemon.post(token, command, params)
			return o.body(res, err)
		},
		"mcp": func(command, params string) string {
			result, err := session.CallTool(o.t.Context(),
				&mcp.CallToolParams{Name: command, Arguments: json.RawMessage(params)})
			if err != nil {
				o.t.Fatal(err)
			}
			return result.Content[0].(*mcp.TextContent).Text
		},
	}
}

// body returns the body of a response.
func (o *office) body(res *http.Response, err error) string {
	o.t.Helper()
	if err != nil {
		o.t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		o.t.Fatal(err)
	}
	return string(body)
}

// TestSignalIsNowhereInClear checks that no part of an encrypted question, its options, its context, its answer or an
// alert appears in plain text in the database, its log, the logs of the processes, the traces or the metrics, whether
// the command was accepted or refused.
func TestSignalIsNowhereInClear(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "builder")
	o.run("signal", "device", "approve", o.paired("pixel")["fingerprint"])
	o.run("setting", "set", "signal.push_hosts", "127.0.0.1:9")
	o.run("setting", "set", "signal.allow_private", "on")
	o.phone("pixel", "subscribe", "https://127.0.0.1:9/push") // nothing listens there, which the daemon logs
	logs, err := os.Create(filepath.Join(o.folder, "mailroom.db-logs"))
	if err != nil {
		t.Fatal(err)
	}
	defer logs.Close()
	daemon := o.serve("--log-level", "debug")
	copied := make(chan error, 1)
	go func() {
		_, err := io.Copy(logs, daemon.logs)
		copied <- err
	}()
	for way, run := range o.askers(daemon, logs) {
		secretly(t, o, way, run)
	}
	seen := o.body(http.Get(daemon.address + "/metrics"))
	if err := daemon.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-copied; err != nil {
		t.Fatal(err)
	}
	exitStatus(t, daemon.cmd)
	for table, content := range o.tables() {
		seen += table + string(content)
	}
	entries, err := filepath.Glob(filepath.Join(o.folder, "mailroom.db*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range entries {
		if info, err := os.Stat(path); err != nil || info.IsDir() {
			continue // a folder of keys, or a file that was removed meanwhile
		}
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		seen += string(content)
	}
	if at := strings.Index(seen, canary); at >= 0 {
		t.Errorf("it stands in clear: %q", seen[max(0, at-200):min(len(seen), at+100)])
	}
	for _, there := range []string{"serving", "mailroom_", "signal_questions", "ask_question", "send_alert"} {
		if !strings.Contains(seen, there) {
			t.Errorf("%q is not in what was searched", there)
		}
	}
	if failures := o.rows(`SELECT name FROM command_trace WHERE status = 'ERROR'
		AND name IN ('ask_question', 'send_alert')`); len(failures) != 3*18 {
		t.Errorf("%d failures are in the trace", len(failures))
	}
}

// secretly asks a question, answers it, sends an alert and makes a command fail, in one of the ways of askers.
func secretly(t *testing.T, o *office, way string, run func(command, params string) string) {
	t.Helper()
	id := func(answer, key string) string {
		t.Helper()
		var fields map[string]any
		if err := json.Unmarshal([]byte(answer), &fields); err != nil || fields["success"] != true {
			t.Fatalf("%s: %s", way, answer)
		}
		text, _ := fields[key].(string)
		return text
	}
	option := id(run("ask_question", `{"question":"Canary question?","options":["Canary 1","Canary 2"],"context":"Canary"}`), "questionId")
	text := id(run("ask_question", `{"question":"Canary question?"}`), "questionId")
	o.phone("pixel", "answer", option, "1")
	o.phone("pixel", "answer", text, "Canary answer")
	if got := id(run("get_response", `{"questionId":"`+option+`"}`), "response"); got != "Canary 2" {
		t.Errorf("%s: the answer is %q", way, got)
	}
	if got := id(run("get_response", `{"questionId":"`+text+`","wait_seconds":5}`),
		"response"); got != "Canary answer" {
		t.Errorf("%s: the answer is %q", way, got)
	}
	id(run("send_alert", `{"message":"Canary","context":"Canary","alertType":"error"}`), "alertId")
	id(run("signal_list", `{}`), "")
	long := strings.Repeat(canary, 400)
	for _, refused := range [][2]string{
		{"ask_question", `{"question":"` + long + `"}`},
		{"ask_question", `{"question":"Canary","context":"` + long + `"}`},
		{"ask_question", `{"question":"Canary","options":["Canary","Canary"]}`},
		{"ask_question", `{"question":"Canary","options":["` + long + `"]}`},
		{"ask_question", `{"question":"Canary","options":["Canary","2","3","4","5","6"]}`},
		{"ask_question", `{"question":["Canary"]}`},
		{"ask_question", `{"question":"x","options":"Canary"}`},
		{"ask_question", `{"question":"x","options":[{"text":"Canary"}]}`},
		{"ask_question", `{"question":"Canary","ttl":0}`},
		{"ask_question", `{"question":"Canary","source":"other"}`},
		{"send_alert", `{"message":"` + long + `"}`},
		{"send_alert", `{"message":{"text":"Canary"}}`},
		{"ask_question", `{"question":"x","Canary?":"x"}`},
		{"ask_question", `{"question":"x","priority":"Canary"}`},
		{"ask_question", `{"question":"x","encrypt":"Canary"}`},
		{"ask_question", `{"question":"x","threadId":["Canary"]}`},
		{"send_alert", `{"message":"x","alertType":"Canary"}`},
		{"send_alert", `{"message":"x","source":"a Canary"}`},
	} {
		answer := run(refused[0], refused[1])
		if strings.Contains(answer, canary) || !strings.Contains(answer, `"success":false`) {
			t.Errorf("%s: %s answers %s", way, refused[1][:min(80, len(refused[1]))], answer)
		}
	}
}

// TestServeRemovesKeys checks that the daemon removes the keys of answers that were read, even if nobody asks or
// reads any more.
func TestServeRemovesKeys(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "builder")
	o.run("signal", "device", "approve", o.paired("pixel")["fingerprint"])
	ask := func() string {
		id, _ := o.run("signal", "ask_question", "--as", "builder", "--question", "Proceed?")["questionId"].(string)
		o.phone("pixel", "answer", id, "yes")
		return id
	}
	read, unread := ask(), ask()
	o.run("signal", "get_response", "--as", "builder", read)
	if _, err := enginetest.Plain(t,
		o.db).Exec(`UPDATE signal_questions SET read_at = '2026-01-02T03:04:05.000Z' WHERE question_id = ?`,
		read); err != nil {
		t.Fatal(err)
	}
	o.serve()
	replies := filepath.Join(o.beside()+"-signal", "replies")
	there := func(id string) bool {
		_, err := os.Stat(filepath.Join(replies, id))
		return err == nil
	}
	o.until("the key of the answer that was read is gone", func() bool { return !there(read) })
	if !there(unread) {
		t.Error("the key of an answer that nobody has read is gone")
	}
}

// TestWhoAsksSeals checks that the command line and `mailroom mcp` seal, store and open questions on their own: no
// daemon runs that could see the text.
func TestWhoAsksSeals(t *testing.T) {
	t.Parallel()
	o := newOffice(t, "builder")
	o.run("signal", "device", "approve", o.paired("pixel")["fingerprint"])
	o.run("setting", "set", "signal.push_hosts", "127.0.0.1:9")
	o.run("setting", "set", "signal.allow_private", "on")
	o.phone("pixel", "subscribe", "https://127.0.0.1:9/push")
	session := dialMCP(t, &mcp.CommandTransport{Command: o.command(mcpWords("builder", "", false)...)})
	over := func(tool, params string) map[string]any {
		t.Helper()
		result, err := session.CallTool(t.Context(),
			&mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(params)})
		var fields map[string]any
		if err == nil {
			err = json.Unmarshal([]byte(result.Content[0].(*mcp.TextContent).Text), &fields)
		}
		if err != nil || fields["success"] != true {
			t.Fatalf("%s: %v, %v", tool, fields, err)
		}
		return fields
	}
	for way, run := range map[string]struct{ ask, get func(string) map[string]any }{
		"command line": {
			func(question string) map[string]any {
				return o.run("signal", "ask_question", "--as", "builder", "--question", question)
			},
			func(id string) map[string]any { return o.run("signal", "get_response", "--as", "builder", id) },
		},
		"mcp": {
			func(question string) map[string]any { return over("ask_question", `{"question":"`+question+`"}`) },
			func(id string) map[string]any { return over("get_response", `{"questionId":"`+id+`"}`) },
		},
	} {
		id, _ := run.ask("Canary by " + way)["questionId"].(string)
		rows := o.rows(`SELECT q.encrypted || ' ' || substr(q.body, 1,
			28) || ' ' || m.status || ' ' || CASE WHEN json_extract(m.payload, '$.body') = q.body THEN 1 ELSE 0 END
			FROM signal_questions q JOIN agent_message m ON m.recipient LIKE 'device:%'
				AND json_extract(m.payload, '$.id') = q.question_id
			WHERE q.question_id = '` + id + `'`)
		if want := "1 " + base64.StdEncoding.EncodeToString([]byte("age-encryption.org/v1"))[:28] +
			" pending 1"; len(rows) != 1 || rows[0] != want {
			t.Errorf("%s: stored is %q; want %q", way, rows, want)
		}
		if shown := o.phone("pixel", "read", id); !strings.Contains(shown, "Canary by "+way) {
			t.Errorf("%s: the phone shows %s", way, shown)
		}
		o.phone("pixel", "answer", id, "yes")
		if got := run.get(id); got["response"] != "yes" {
			t.Errorf("%s: the answer is %v", way, got)
		}
	}
	if daemons := o.rows(`SELECT instance FROM daemons`); len(daemons) != 0 {
		t.Errorf("daemons run: %v", daemons)
	}
}
