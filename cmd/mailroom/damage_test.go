package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator/orchestratortest/enginetest"
)

// pageSize is the page size of our databases.
const pageSize = 4096

// scribble overwrites a part of a file with noise.
func scribble(t *testing.T, path string, from, n int64) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	noise, random := make([]byte, n), rand.New(rand.NewPCG(1, uint64(from)))
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	if _, err := file.WriteAt(noise, from); err != nil {
		t.Fatal(err)
	}
}

// statuses are the exit statuses in docs/cli.md; 70 is a bug, and 2 a crash.
var statuses = []int{0, 1, 64, 65, 66, 69, 75, 77}

// answerOf runs a command on a damaged database and returns its exit status and its answer. Whatever is damaged, the
// command must end with a documented status and a valid answer.
func (o *office) answerOf(args ...string) (status int, answer map[string]any) {
	o.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := o.command(args...)
	killable := exec.CommandContext(ctx, cmd.Path, args...)
	killable.Env = cmd.Env
	var said bytes.Buffer
	killable.Stderr = &said
	out, err := killable.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		status = exit.ExitCode()
	} else if err != nil {
		o.t.Fatal(err)
	}
	what := "mailroom " + strings.Join(args, " ")
	if !slices.Contains(statuses, status) || strings.Contains(said.String(), "panic") ||
		strings.Contains(said.String(), "goroutine ") {
		o.t.Errorf("%s: exit status %d\n%s%s", what, status, out, said.String())
	}
	if err := json.Unmarshal(out, &answer); err != nil {
		o.t.Errorf("%s: %v in %q", what, err, out)
	}
	return status, answer
}

// TestDamagedPages checks that wherever the file is damaged, every command ends with an answer that reports the
// damage or is not affected, that doctor reports the problem and advice, and that following the advice exactly
// restores the messages of the backup.
func TestDamagedPages(t *testing.T) {
	t.Parallel()
	enginetest.OfAFile(t, "a server keeps its own pages whole")
	for name, damage := range map[string]func(o *office, pageOf func(string) int64){
		"header": func(o *office, _ func(string) int64) { scribble(o.t, o.db, 0, 100) },
		"schema": func(o *office, _ func(string) int64) { scribble(o.t, o.db, 100, pageSize-100) },
		"messages": func(o *office,
			pageOf func(string) int64) {
			scribble(o.t, o.db, pageOf("agent_message"), pageSize)
		},
		"index": func(o *office, pageOf func(string) int64) {
			scribble(o.t, o.db, pageOf("agent_message_live"), pageSize)
		},
		"trace": func(o *office,
			pageOf func(string) int64) {
			scribble(o.t, o.db, pageOf("message_trace"), pageSize)
		},
		"every page":     func(o *office, pageOf func(string) int64) { scribble(o.t, o.db, pageSize, 40*pageSize) },
		"cut in half":    func(o *office, _ func(string) int64) { halve(o.t, o.db) },
		"not a database": func(o *office, _ func(string) int64) { scribble(o.t, o.db, 0, 40*pageSize) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOffice(t, "a", "b")
			backup := filepath.Join(t.TempDir(), "backup.db")
			o.sendMany(300)
			o.run("backup", backup)
			root := map[string]int64{}
			for _, row := range o.rows(`SELECT name, rootpage FROM sqlite_schema WHERE rootpage > 0`) {
				name, page, _ := strings.Cut(row, "|")
				n, err := strconv.ParseInt(page, 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				root[name] = (n - 1) * pageSize
			}
			damage(o, func(name string) int64 { return root[name] })
			for _, args := range [][]string{
				{"send", "--sender", "a", "--recipient", "b", "--message-type", "note", "--payload", "1"},
				{"poll", "--recipient", "b"}, {"deliver_all"}, {"wait", "--recipient", "b", "--timeout", "0s"},
				{"clear_old"},
				{"status"}, {"agent", "list"}, {"backup", filepath.Join(t.TempDir(), "another.db")}, {"checkpoint"},
				{"restore", backup},
				{"sql", "SELECT count(*) FROM agent_message"},
			} {
				status, answer := o.answerOf(args...)
				if hint, _ := answer["hint"].(string); status == 75 && !strings.Contains(hint, "doctor") &&
					!strings.Contains(hint, "restore BACKUP") {
					t.Errorf("%v: the hint %q names no way on", args, hint)
				}
			}
			o.recover(backup)
			if got := o.rows(`SELECT count(*) FROM agent_message`); got[0] != "300" {
				t.Errorf("after the recovery there are %s messages; want 300", got[0])
			}
			if _, answer := o.answerOf("doctor"); answer["healthy"] != true &&
				strings.Contains(string(mustJSON(t, answer)), "damaged") {
				t.Errorf("after the recovery doctor says %v", answer)
			}
		})
	}
}

// recover follows the doctor's advice.
func (o *office) recover(backup string) {
	o.t.Helper()
	_, answer := o.answerOf("doctor")
	findings, _ := answer["findings"].([]any)
	for _, f := range findings {
		finding, _ := f.(map[string]any)
		do, _ := finding["do"].(string)
		_, rest, _ := strings.Cut(do, "Then run `")
		commands, _, ok := strings.Cut(rest, "`")
		if !ok {
			continue
		}
		shell := exec.Command("sh", "-c", strings.Replace(commands, "BACKUP", backup, 1))
		shell.Env = o.command().Env
		if out, err := shell.CombinedOutput(); err != nil {
			o.t.Fatalf("%s: %v\n%s", commands, err, out)
		}
		return
	}
	o.t.Fatalf("doctor does not say how to recover: %v", answer)
}

// sendMany sends n messages from a to b.
func (o *office) sendMany(n int) {
	o.t.Helper()
	cmd := o.command("send", "--stdin")
	cmd.Stdin = strings.NewReader(strings.Repeat(`{"sender":"a","recipient":"b","message_type":"note","payload":{"text":"`+strings.Repeat("x", 200)+`"}}`+"\n", n))
	if out, err := cmd.Output(); err != nil {
		o.t.Fatalf("%v\n%s", err, out)
	}
}

func halve(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	if err == nil {
		err = os.Truncate(path, info.Size()/2/pageSize*pageSize)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func mustJSON(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}
