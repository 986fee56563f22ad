package main

import (
	"database/sql"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// pauseOutside stops a process of the office while it is neither in the turnstile nor in a transaction.
func (o *office) pauseOutside(p *os.Process) (goOn func()) {
	o.t.Helper()
	turn := lockedFile(o.t, o.db+"-turnstile")
	db, err := sql.Open("sqlite3", "file:"+o.db+"?_busy_timeout=20000&_txlock=immediate")
	if err != nil {
		o.t.Fatal(err)
	}
	defer db.Close()
	tx, err := db.Begin()
	if err != nil {
		o.t.Fatal(err)
	}
	goOn = pause(o.t, p)
	if err := tx.Rollback(); err != nil {
		o.t.Fatal(err)
	}
	turn.Close()
	return goOn
}

// TestStoppedWithALease checks a daemon that was stopped during a delivery until its lease had ended and another
// process had delivered. When it continues, it does not deliver again, and its late result changes nothing.
func TestStoppedWithALease(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "held.jsonl")
	o := steppedOffice(t, "a", "held --deliver jsonl:"+file)
	side := lockedFile(t, file+".lock")
	s := o.serve()
	id := o.run("send", "--sender", "a", "--recipient", "held", "--message-type", "note")["message_id"].(string)
	o.await(`SELECT count(*) FROM agent_message WHERE lease_token <> ''`, "1")
	goOn := o.pauseOutside(s.cmd.Process)
	o.steps(time.Hour) // the lease has ended
	if err := syscall.Flock(int(side.Fd()), syscall.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	o.until("the message is delivered", func() bool {
		o.run("deliver_all")
		o.steps(2 * time.Hour) // past the next attempt, if the lost lease counts as an attempt
		return o.rows(`SELECT status FROM agent_message`)[0] == "delivered"
	})
	goOn()
	after := o.run("send", "--sender", "a", "--recipient", "held", "--message-type", "note")["message_id"].(string)
	o.await(`SELECT count(*) FROM agent_message WHERE status = 'delivered'`, "2")
	s.stop(t)
	if got := o.lines(file); got[id] != 1 || got[after] != 1 {
		t.Errorf("in the file: %v", got)
	}
	if got := o.rows(`SELECT count(*) FROM message_trace WHERE event = 'delivered' AND message_id = '` + id +
		`'`)[0]; got != "1" {
		t.Errorf("delivered %s times", got)
	}
	o.checkHistory()
}

// TestKilledWithALease checks that messages claimed by a killed daemon are delivered by the next run, without waiting
// for the end of the lease, and that messages claimed by a daemon that is only stopped are left to it.
func TestKilledWithALease(t *testing.T) {
	t.Parallel()
	for _, killed := range []bool{false, true} {
		file := filepath.Join(t.TempDir(), "held.jsonl")
		o := steppedOffice(t, "a", "held --deliver jsonl:"+file)
		side := lockedFile(t, file+".lock")
		s := o.serve()
		o.run("send", "--sender", "a", "--recipient", "held", "--message-type", "note")
		o.await(`SELECT count(*) FROM agent_message WHERE lease_token <> ''`, "1")
		if killed {
			s.cmd.Process.Kill()
			s.cmd.Wait()
		} else {
			defer o.pauseOutside(s.cmd.Process)()
		}
		if err := syscall.Flock(int(side.Fd()), syscall.LOCK_UN); err != nil {
			t.Fatal(err)
		}
		o.steps(10 * time.Second)
		o.run("deliver_all")
		want := map[bool]string{false: "pending", true: "delivered"}[killed]
		if got := o.rows(`SELECT status FROM agent_message`)[0]; got != want {
			t.Errorf("killed %t: the message is %s, want %s", killed, got, want)
		}
	}
}

// lockedFile returns a file under a flock, which delays deliveries to the file that it guards.
func lockedFile(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	return f
}
