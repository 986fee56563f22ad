package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"mailroom/orchestrator/orchestratortest/enginetest"
)

// pagesOf returns the offsets of the root pages of a table and its indexes in the file.
func (o *office) pagesOf(table string) (offsets []int64) {
	o.t.Helper()
	for _, row := range o.rows(`SELECT rootpage FROM sqlite_schema WHERE rootpage > 0 AND tbl_name = '` + table + `'`) {
		n, err := strconv.ParseInt(row, 10, 64)
		if err != nil {
			o.t.Fatal(err)
		}
		offsets = append(offsets, (n-1)*pageSize)
	}
	if len(offsets) == 0 {
		o.t.Fatalf("there is no table %s", table)
	}
	return offsets
}

// readiness returns the readiness of a daemon.
func (s *serving) readiness(t *testing.T) (status int, body string) {
	t.Helper()
	res, err := http.Get(s.address + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// TestDaemonSurvivesDamage checks that a daemon whose database pages are damaged reports that at /readyz repeatedly,
// is ready again after they were repaired, and ends when it is asked to.
func TestDaemonSurvivesDamage(t *testing.T) {
	t.Parallel()
	enginetest.OfAFile(t, "a server keeps its own pages whole")
	for table, stir := range map[string]string{
		// A write of another program makes the daemon read its pages again.
		"agent_message": `UPDATE agents SET role = 'changed'`,
		// The trace is not read before an event of a message.
		"message_trace": `INSERT INTO agent_message (message_id, sender, recipient, payload)
			VALUES ('by-hand', 'a', 'b', '1')`,
	} {
		for _, mended := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, mended %t", table, mended), func(t *testing.T) {
				t.Parallel()
				damageUnderADaemon(t, table, stir, mended)
			})
		}
	}
}

func damageUnderADaemon(t *testing.T, table, stir string, mended bool) {
	o := newOffice(t, "a", "b")
	s := o.serve()
	o.sendMany(300)
	o.await(`SELECT count(*) FROM agent_message WHERE status = 'pending'`, "0")
	o.run("checkpoint", "--truncate")
	if status, body := s.readiness(t); status != 200 {
		t.Fatalf("/readyz before: %d %s", status, body)
	}
	whole, err := os.ReadFile(o.db)
	if err != nil {
		t.Fatal(err)
	}
	offsets := o.pagesOf(table)
	for _, at := range offsets {
		scribble(t, o.db, at, pageSize)
	}
	o.rows(stir)
	status, body := s.readiness(t)
	o.until("the daemon is not ready any more", func() bool {
		status, body = s.readiness(t)
		return status != 200
	})
	for _, part := range []string{`"error":"unavailable"`, "damaged", "mailroom doctor"} {
		if status != 503 || !strings.Contains(body, part) {
			t.Errorf("/readyz: %d %s; want 503 and %s", status, body, part)
		}
	}
	if again, body := s.readiness(t); again != 503 {
		t.Errorf("/readyz a second time: %d %s", again, body)
	}
	ends := []int{0, 75} // 75: it could not record its end
	if mended {
		for _, at := range offsets {
			overwrite(t, o.db, at, whole[at:at+pageSize])
		}
		o.until("the daemon is ready again", func() bool {
			o.rows(`UPDATE agents SET role = 'mended'`)
			status, _ := s.readiness(t)
			return status == 200
		})
		ends = []int{0}
	}
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := exitStatus(t, s.cmd); !slices.Contains(ends, got) {
		t.Errorf("exit status %d; want one of %v", got, ends)
	}
}

// overwrite writes bytes into a file.
func overwrite(t *testing.T, path string, at int64, bytes []byte) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteAt(bytes, at); err != nil {
		t.Fatal(err)
	}
}

// TestRecoveryOfAPathThatNeedsQuotes checks that the doctor's advice is correct for a shell, whatever the path is.
func TestRecoveryOfAPathThatNeedsQuotes(t *testing.T) {
	t.Parallel()
	enginetest.OfAFile(t, "a server keeps its own pages whole")
	folder := filepath.Join(t.TempDir(), "it's $HOME's room; x")
	o := &office{t: t, db: filepath.Join(folder, "mailroom.db"), folder: folder}
	o.run("--db", o.db, "init")
	o.run("agent", "add", "a")
	o.run("agent", "add", "b")
	o.sendMany(30)
	backup := filepath.Join(t.TempDir(), "backup.db")
	o.run("backup", backup)
	scribble(t, o.db, 0, 8*pageSize)
	o.recover(backup)
	if got := o.run("sql",
		"SELECT count(*) AS n FROM agent_message")["rows"]; string(mustJSON(t, got)) != `[{"n":30}]` {
		t.Errorf("after the recovery: %v", got)
	}
}

// TestDamagedFreePageAndLog checks that a damaged page of the free list or of the write-ahead log is handled like any
// other.
func TestDamagedFreePageAndLog(t *testing.T) {
	t.Parallel()
	enginetest.OfAFile(t, "a server keeps its own pages whole")
	for name, damage := range map[string]func(o *office){
		"free list": func(o *office) {
			o.run("checkpoint", "--truncate")
			header, err := os.ReadFile(o.db)
			if err != nil {
				o.t.Fatal(err)
			}
			first := int64(header[32])<<24 | int64(header[33])<<16 | int64(header[34])<<8 | int64(header[35])
			if first == 0 {
				o.t.Fatal("the free list is empty")
			}
			scribble(o.t, o.db, (first-1)*pageSize, pageSize)
		},
		"log": func(o *office) {
			info, err := os.Stat(o.db + "-wal")
			if err != nil || info.Size() < 3*pageSize {
				o.t.Fatalf("there is no log to damage: %v", err)
			}
			scribble(o.t, o.db+"-wal", 32+24+pageSize/2, pageSize)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOffice(t, "a", "b")
			o.sendMany(300)
			backup := filepath.Join(t.TempDir(), "backup.db")
			o.run("backup", backup)
			o.freePages()
			keeper := o.serve() // prevents a checkpoint of the log when a command ends
			o.sendMany(3)
			if err := keeper.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			keeper.cmd.Wait()
			damage(o)
			for _, args := range [][]string{
				{"status"}, {"poll", "--recipient", "b"}, {"deliver_all"}, {"agent", "list"},
				{"sql", "SELECT count(*) FROM agent_message"},
				{"send", "--sender", "a", "--recipient", "b", "--message-type", "note", "--payload",
					strconv.Quote(strings.Repeat("x", 100_000))},
			} {
				status, answer := o.answerOf(args...)
				if hint, _ := answer["hint"].(string); status != 0 &&
					(status != 75 || answer["error"] != "unavailable" || !strings.Contains(hint, "doctor")) {
					t.Errorf("%v: %v", args, answer)
				}
			}
			if status, answer := o.answerOf("doctor"); status > 1 || (status == 0) != (answer["healthy"] == true) {
				t.Errorf("doctor: exit status %d, %v", status, answer)
			}
			o.wholeOrRecovered(backup)
		})
	}
}

// freePages creates a free list: pages that nothing uses.
func (o *office) freePages() {
	o.t.Helper()
	o.rows(`CREATE TABLE spare (x)`)
	o.rows(`INSERT INTO spare WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n
		WHERE i < 50) SELECT randomblob(4000) FROM n`)
	o.rows(`DROP TABLE spare`)
}

// wholeOrRecovered checks that the file is intact, or that the doctor reports damage and its advice restores the
// backup.
func (o *office) wholeOrRecovered(backup string) {
	o.t.Helper()
	_, answer := o.answerOf("doctor")
	damaged := slices.ContainsFunc(answer["findings"].([]any), func(f any) bool {
		finding := f.(map[string]any)
		return finding["level"] == "problem" && strings.Contains(finding["do"].(string), "restore BACKUP")
	})
	if damaged {
		o.recover(backup)
	}
	if got := o.rows(`PRAGMA integrity_check`); got[0] != "ok" {
		o.t.Errorf("integrity_check: %v", got)
	}
	if got := o.rows(`SELECT count(*) >= 300 FROM agent_message`); got[0] != "1" {
		o.t.Errorf("messages of the backup are missing")
	}
}
