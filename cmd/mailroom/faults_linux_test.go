package main

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mattn/go-sqlite3"

	"mailroom/orchestrator/orchestratortest"
	"mailroom/orchestrator/orchestratortest/enginetest"
)

// faulty is the program with a clock and a patience that a test sets. The file in MAILROOM_TEST_CLOCK contains the
// offset of the clock from the real time.
func faulty() {
	if path := os.Getenv("MAILROOM_TEST_CLOCK"); path != "" {
		options.Now = func() time.Time {
			text, err := os.ReadFile(path)
			off, perr := time.ParseDuration(string(text))
			if err != nil || perr != nil {
				panic(fmt.Sprint(err, perr))
			}
			return time.Now().Add(off)
		}
	}
	if text := os.Getenv("MAILROOM_TEST_PATIENCE"); text != "" {
		options.BusyTimeout, _ = time.ParseDuration(text)
	}
	os.Exit(run(config()))
}

// stop ends a daemon and checks that its exit status is 0.
func (s *serving) stop(t *testing.T) {
	t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := exitStatus(t, s.cmd); got != 0 {
		t.Errorf("exit status of the daemon: %d; want 0", got)
	}
}

// sentUntilItFails sends from a, one process for each message, until one is rejected, and returns the IDs of the
// others and the rejection.
func (o *office) sentUntilItFails(recipient string, size int) (ids []string, status int, refusal map[string]any) {
	o.t.Helper()
	payload := `"` + strings.Repeat("x", size) + `"`
	for range 1000 {
		status, answer := o.answerOf("send", "--sender", "a", "--recipient", recipient, "--message-type", "note",
			"--payload", payload)
		if status != 0 {
			return ids, status, answer
		}
		ids = append(ids, answer["message_id"].(string))
	}
	o.t.Fatal("the disk never fills")
	return nil, 0, nil
}

// TestFullDiskAndBack checks a disk that fills while a daemon and senders run. Each send is rejected with a clear
// error, the daemon continues, and acknowledged messages are kept. When there is room again, everything continues
// without a restart, and every acknowledged message is delivered once.
func TestFullDiskAndBack(t *testing.T) {
	t.Parallel()
	enginetest.OfAFile(t, "a server has a disk of its own")
	o := newOfficeOf(t, "mailroom", orchestratortest.SmallDisk(t, 8), "a", "b")
	ballast := filepath.Join(o.folder, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 5<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	s := o.serve()
	lines, err := o.startSender()
	if err != nil {
		t.Fatal(err)
	}
	ids, status, refusal := o.sentUntilItFails("b", 100_000)
	if message := fmt.Sprint(refusal["message"]); status != 75 || refusal["error"] != "unavailable" ||
		!strings.Contains(message, "full") {
		t.Errorf("the first send that fails: exit status %d, %v", status, refusal)
	}
	if err := lines.say("a", "b", `"`+strings.Repeat("y", 200_000)+`"`); err != nil {
		t.Fatal(err)
	}
	if id, ok, err := lines.heard(); ok || err == nil {
		t.Errorf("a line is acknowledged on the full disk: %s", id)
	}
	lines.in.Close()
	if got := exitStatus(t, lines.cmd); got != 75 {
		t.Errorf("exit status of send --stdin: %d; want 75", got)
	}
	// The database can be read, and written as far as there is room. A full disk is no reason to restart a daemon.
	if status, body := s.readiness(t); status != 200 {
		t.Errorf("/readyz on the full disk: %d %s", status, body)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		more := o.run("send", "--sender", "a", "--recipient", "b", "--message-type", "note")
		ids = append(ids, more["message_id"].(string))
	}
	o.await(`SELECT count(*) FROM agent_message WHERE status <> 'delivered'`, "0")
	got := map[string]int{}
	for len(got) < len(ids) {
		ms := o.run("wait", "--recipient", "b", "--batch-size", "1000", "--timeout", "1s")["messages"].([]any)
		if len(ms) == 0 {
			break
		}
		for _, m := range ms {
			got[m.(map[string]any)["message_id"].(string)]++
		}
	}
	for _, id := range ids {
		if got[id] != 1 {
			t.Errorf("%s was acknowledged, and read %d times", id, got[id])
		}
	}
	if len(got) != len(ids) {
		t.Errorf("%d messages were acknowledged, and %d read", len(ids), len(got))
	}
	s.stop(t)
	o.checkHistory()
}

// steps sets the clock of an office's processes.
func (o *office) steps(off time.Duration) {
	o.t.Helper()
	path := o.clockFile()
	if err := os.WriteFile(path+".new", []byte(off.String()), 0o600); err != nil {
		o.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		o.t.Fatal(err)
	}
}

func (o *office) clockFile() string { return filepath.Join(o.folder, "clock") }

// steppedOffice returns an office whose processes share a clock that the test sets.
func steppedOffice(t *testing.T, agents ...string) *office {
	t.Helper()
	folder := t.TempDir()
	o := &office{t: t, db: filepath.Join(folder, "mailroom.db"), folder: folder, program: "mailroom-faulty"}
	o.env = []string{"MAILROOM_TEST_CLOCK=" + o.clockFile()}
	o.steps(0)
	o.run("--db", o.db, "init")
	for _, a := range agents {
		o.run(append([]string{"agent", "add"}, strings.Fields(a)...)...)
	}
	return o
}

// TestClockStepsUnderSeveralProcesses sets the clock forward and back by hours while a daemon, a sender and readers
// run. Messages are delivered immediately, once and in order, whatever the clock shows. A retry that was planned with
// the clock ahead is brought back. The trace never goes backward.
func TestClockStepsUnderSeveralProcesses(t *testing.T) {
	t.Parallel()
	enginetest.OfAFile(t, "a server has a clock of its own")
	file := filepath.Join(t.TempDir(), "filed.jsonl")
	away := filepath.Join(t.TempDir(), "away")
	if err := os.Mkdir(away, 0o700); err != nil {
		t.Fatal(err)
	}
	o := steppedOffice(t, "a", "b", "filed --deliver jsonl:"+file,
		"shaky --deliver jsonl:"+filepath.Join(away, "x.jsonl"))
	if err := os.Remove(away); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(away, nil, 0o600); err != nil { // a file in place of a folder: its deliveries fail
		t.Fatal(err)
	}
	s := o.serve()
	lines, err := o.startSender()
	if err != nil {
		t.Fatal(err)
	}
	var filed []string
	for i, off := range []time.Duration{0, 5 * time.Hour, -4 * time.Hour, 0} {
		o.steps(off)
		for _, to := range []string{"b", "filed", "shaky"} {
			for n := range 3 {
				if err := lines.say("a", to, fmt.Sprint(i*10+n)); err != nil {
					t.Fatal(err)
				}
				id, ok, err := lines.heard()
				if !ok {
					t.Fatal(err)
				}
				if to == "filed" {
					filed = append(filed, id)
				}
			}
		}
		o.await(`SELECT count(*) FROM agent_message WHERE recipient IN ('b', 'filed') AND status <> 'delivered'`, "0")
		// Every failed attempt of shaky has a next attempt, and none is further ahead than the longest delay of the
		// retry schedule.
		o.await(fmt.Sprintf(`SELECT count(*), count(*) FILTER (WHERE status = 'retry' AND next_attempt_at <= '%s')
			FROM agent_message
			WHERE recipient = 'shaky'`, time.Now().Add(off+2*time.Minute).UTC().Format("2006-01-02T15:04:05.000Z")),
			fmt.Sprintf("%d|%[1]d", 3*(i+1)))
		var read []any
		for len(read) < 3 {
			read = append(read,
				o.run("wait", "--recipient", "b", "--batch-size", "10", "--timeout", "10s")["messages"].([]any)...)
		}
		for n, m := range read {
			if got := fmt.Sprint(m.(map[string]any)["payload"]); got != fmt.Sprint(i*10+n) {
				t.Errorf("at %s, message %d is %s", off, n, got)
			}
		}
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var arrived []string
	for line := range strings.Lines(string(content)) {
		var m struct {
			MessageID string `json:"message_id"`
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		arrived = append(arrived, m.MessageID)
	}
	if strings.Join(arrived, " ") != strings.Join(filed, " ") {
		t.Errorf("sent %v, in the file %v", filed, arrived)
	}
	lines.in.Close()
	if got := exitStatus(t, lines.cmd); got != 0 {
		t.Errorf("exit status of the sender: %d", got)
	}
	s.stop(t)
	o.checkHistory()
}

// pause stops a process until the test calls goOn.
func pause(t *testing.T, p *os.Process) (goOn func()) {
	t.Helper()
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	// The signal takes effect with a delay.
	for tasks := fmt.Sprintf("/proc/%d/task/*/stat", p.Pid); !allStopped(t, tasks); {
		runtime.Gosched()
	}
	return func() {
		if err := p.Signal(syscall.SIGCONT); err != nil {
			t.Error(err)
		}
	}
}

// allStopped reports whether all threads of a process have stopped.
func allStopped(t *testing.T, tasks string) bool {
	t.Helper()
	files, err := filepath.Glob(tasks)
	if err != nil || len(files) == 0 {
		t.Fatalf("no threads at %s: %v", tasks, err)
	}
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if _, state, _ := bytes.Cut(stat, []byte(") ")); err == nil && !bytes.HasPrefix(state, []byte("T")) {
			return false
		}
	}
	return true
}

// TestStoppedInsideATransaction checks that while a process that was stopped within a transaction holds SQLite's
// write lock, other writers report that the database is busy and lose nothing, and readers continue. When the process
// continues, so do all others, and its write is there once.
func TestStoppedInsideATransaction(t *testing.T) {
	t.Parallel()
	enginetest.OfAFile(t, "only a file has one lock for all who write")
	o := newOfficeOf(t, "mailroom-faulty", t.TempDir(), "a", "b")
	o.env = []string{"MAILROOM_TEST_PATIENCE=100ms"}
	// The trigger keeps the transaction open while it counts: until the process is stopped, and longer.
	o.rows(`CREATE TRIGGER slow BEFORE INSERT ON agent_message WHEN new.payload = '"slow"' BEGIN
		SELECT (WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 3000000) SELECT count(*)
			FROM c); END`)
	slow := o.command("send", "--sender", "a", "--recipient", "b", "--message-type", "note", "--payload", `"slow"`)
	keep, err := sql.Open("sqlite3", "file:"+o.db)
	if err == nil {
		err = keep.QueryRow(`SELECT count(*) FROM agent_message`).Scan(new(int))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { keep.Close() })
	if err := slow.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { slow.Process.Kill() })
	o.awaitLocked()
	goOn := pause(t, slow.Process)
	status, answer := o.answerOf("send", "--sender", "a", "--recipient", "b", "--message-type", "note", "--payload",
		`"late"`)
	if status != 75 || answer["error"] != "busy" {
		t.Errorf("a send while the lock is held: exit status %d, %v", status, answer)
	}
	if got := o.run("poll", "--recipient", "b")["messages"].([]any); len(got) > 0 {
		t.Errorf("the uncommitted message can be seen: %v", got)
	}
	goOn()
	if err := slow.Wait(); err != nil {
		t.Errorf("the stopped send: %v", err)
	}
	o.run("send", "--sender", "a", "--recipient", "b", "--message-type", "note", "--payload", `"late"`)
	if got := o.rows(`SELECT count(*) FILTER (WHERE payload = '"slow"'), count(*) FILTER (WHERE payload = '"late"')
		FROM agent_message`)[0]; got != "1|1" {
		t.Errorf("slow and late stand there %s times", got)
	}
	o.checkHistory()
}

// awaitLocked waits until a process holds SQLite's write lock. Keep the database open meanwhile, because the first
// process to open it holds other locks for a moment.
func (o *office) awaitLocked() {
	o.t.Helper()
	db, err := sql.Open("sqlite3", "file:"+o.db+"?_busy_timeout=0&_txlock=immediate")
	if err != nil {
		o.t.Fatal(err)
	}
	defer db.Close()
	o.until("somebody holds the write lock", func() bool {
		tx, err := db.Begin()
		var busy sqlite3.Error
		if errors.As(err, &busy) && busy.Code == sqlite3.ErrBusy {
			return true
		}
		if err == nil {
			err = tx.Rollback()
		}
		if err != nil {
			o.t.Fatal(err)
		}
		return false
	})
}
