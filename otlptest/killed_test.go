package otlptest

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator/orchestratortest/enginetest"
)

// office is a database, the program, and the receiver to which its daemon sends.
type office struct {
	*collector
	program, db, folder string
	daemon              *exec.Cmd
}

func newOffice(t *testing.T) *office {
	t.Helper()
	folder := t.TempDir()
	program := filepath.Join(folder, "mailroom")
	build := exec.Command("go", "build", "-o", program, "./cmd/mailroom")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	free.Close()
	return &office{
		collector: &collector{t: t, address: address, file: filepath.Join(folder, "received")},
		program:   program, db: enginetest.PlaceAt(t, filepath.Join(folder, "mailroom.db")), folder: folder,
	}
}

func (o *office) command(in string, args ...string) *exec.Cmd {
	cmd := exec.Command(o.program, append([]string{"--db", o.db}, args...)...)
	cmd.Stdin = strings.NewReader(in)
	cmd.Env = append(os.Environ(), "MAILROOM_OUTPUT=json", "OTEL_EXPORTER_OTLP_ENDPOINT=", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=",
		"OTEL_SDK_DISABLED=", "XDG_STATE_HOME="+filepath.Join(o.folder, "state"))
	return cmd
}

func (o *office) run(in string, args ...string) {
	o.t.Helper()
	if out, err := o.command(in, args...).CombinedOutput(); err != nil {
		o.t.Fatalf("mailroom %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// serve starts a daemon. Its first line contains the address of the receiver.
func (o *office) serve() {
	o.t.Helper()
	o.daemon = o.command("", "serve", "--otlp", "http://name:word@"+o.address)
	log, err := os.OpenFile(o.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		o.t.Fatal(err)
	}
	defer log.Close()
	o.daemon.Stderr = log
	begin(o.t, o.daemon, `"otlp":"http://`+o.address+`/v1/traces"`)
}

// log returns the path of the daemons' log.
func (o *office) log() string { return filepath.Join(o.folder, "daemon.log") }

// send sends a few messages to each agent.
func (o *office) send(round int) {
	o.t.Helper()
	var lines strings.Builder
	for i := range 50 {
		for _, to := range []string{"boxed", "lined", "broken"} {
			fmt.Fprintf(&lines,
				`{"sender":"boxed","recipient":%q,"message_type":"note","payload":"a secret of round %d, number %d"}`+
					"\n", to, round, i)
		}
	}
	o.run(lines.String(), "send", "--stdin")
	o.run("", "wait", "--recipient", "boxed", "--timeout", "30s")
}

// until waits until so returns true.
func (o *office) until(what string, so func() bool) {
	o.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !so(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			log, _ := os.ReadFile(o.log())
			o.t.Fatalf("in vain: %s\n%s", what, log)
		}
	}
}

// rows runs a query on the database.
func (o *office) rows(query string, columns int) (list [][]string) {
	o.t.Helper()
	db := enginetest.Plain(o.t, o.db)
	defer db.Close()
	rows, err := db.Query(query)
	if err != nil {
		o.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		cells, targets := make([]string, columns), make([]any, columns)
		for i := range cells {
			targets[i] = &cells[i]
		}
		if err := rows.Scan(targets...); err != nil {
			o.t.Fatal(err)
		}
		list = append(list, cells)
	}
	if err := rows.Err(); err != nil {
		o.t.Fatal(err)
	}
	return list
}

// TestKilled checks that the receiver gets every event and every ended command, whichever process is killed at any
// time, and gets no content of messages.
func TestKilled(t *testing.T) {
	o := newOffice(t)
	o.run("", "init") // without a receiver
	o.run("", "trust")
	o.run("", "agent", "add", "boxed")
	o.run("", "agent", "add", "lined", "--deliver", "jsonl:"+filepath.Join(o.folder, "lined.jsonl"))
	o.run("", "agent", "add", "broken", "--deliver", "exec:echo another secret; exit 1")
	o.start()
	o.serve()
	for round := range 6 {
		killsDaemon, killsReceiver := round%3 != 1, round%3 != 0
		before := o.requests()
		o.hold()
		o.send(round)
		o.until("a request", func() bool { return o.requests() > before }) // received, but not answered
		if killsDaemon {
			kill(t, o.daemon)
		}
		if killsReceiver {
			kill(t, o.cmd)
			o.send(round)
		}
		o.release()
		if killsReceiver {
			o.start()
		}
		if killsDaemon {
			o.serve()
		}
	}
	o.until("everything is sent", o.caughtUp)
	o.check()
}

// caughtUp reports whether the cursor has passed all ended events and commands.
func (o *office) caughtUp() bool {
	return o.rows(`SELECT events >= (SELECT max(id) FROM message_trace)
		AND spans >= (SELECT max(id) FROM command_trace WHERE ended_at <> '')
		FROM exports`, 1)[0][0] != "0"
}

// check compares the received spans with the tables.
func (o *office) check() {
	o.t.Helper()
	kill(o.t, o.daemon)
	all, again := o.spans()
	byEvent := map[string]*span{}
	for _, s := range all {
		if id := s.attribute("mailroom.event_id"); id != "" {
			if byEvent[id] != nil {
				o.t.Errorf("event %s has two spans:\n%s\n%s", id, byEvent[id].text, s.text)
			}
			byEvent[id] = s
		}
	}
	events := o.rows(`SELECT t.id, t.message_id, t.event, m.trace_id FROM message_trace t
		JOIN agent_message m ON m.message_id = t.message_id
		WHERE t.id <= (SELECT events FROM exports)`, 4)
	for _, row := range events {
		s := byEvent[row[0]]
		if s == nil {
			o.t.Errorf("event %s (%s of %s) is missing", row[0], row[2], row[1])
		} else if s.TraceID != row[3] || s.attribute("messaging.message.id") != row[1] ||
			s.attribute("messaging.operation.name") != row[2] {
			o.t.Errorf("event %q is %s", row, s.text)
		}
	}
	commands := o.rows(`SELECT span_id, trace_id, parent_span_id, name FROM command_trace WHERE ended_at <> ''
		AND id <= (SELECT spans FROM exports)`, 4)
	for _, row := range commands {
		if s := all[row[0]]; s == nil {
			o.t.Errorf("command %s, %s, is missing", row[0], row[3])
		} else if s.TraceID != row[1] || s.ParentSpanID != row[2] || s.Name != row[3] {
			o.t.Errorf("command %q is %s", row, s.text)
		}
	}
	if len(events) < 1500 || len(commands) < 20 || again == 0 {
		o.t.Errorf("there are %d events and %d commands, and %d spans came again: too few to show anything",
			len(events), len(commands), again)
	}
	if bytes.Contains(o.read(), []byte("secret")) {
		o.t.Error("what was said in messages was sent")
	}
	o.t.Logf("%d events and %d commands in %d requests; %d spans came again", len(events), len(commands), o.requests(),
		again)
}
