package transport_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mailroom/orchestrator"
	"mailroom/orchestrator/orchestratortest"
	"mailroom/orchestrator/orchestratortest/helper"
	"mailroom/orchestrator/program"
	"mailroom/orchestrator/transport"
)

var (
	_ orchestrator.Transport = transport.Exec{}
	_ orchestrator.Sized     = transport.Exec{}
	_ orchestrator.Slotted   = transport.Exec{}
	_ orchestrator.Foldered  = transport.Exec{}
	_ orchestrator.Lingerer  = transport.Exec{}
)

// runAppend is an agent's command: it appends its input to a file and syncs it. It fails while FILE.full exists.
func runAppend(t *testing.T, args []string) {
	path := args[0]
	text, err := io.ReadAll(os.Stdin)
	must(t, err)
	if _, err := os.Stat(path + ".full"); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal("the shelf is full")
	}
	side, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE, 0o600)
	must(t, err)
	must(t, unix.Flock(int(side.Fd()), unix.LOCK_EX))
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	must(t, err)
	_, err = file.Write(text)
	must(t, err)
	must(t, file.Sync())
}

// runLeaver is a command that prints "ready" and on SIGTERM exits with a given status. A shell could miss the
// signal.
func runLeaver(t *testing.T, args []string) {
	status, err := strconv.Atoi(args[0])
	must(t, err)
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, unix.SIGTERM)
	_, err = unix.Write(9, []byte("ready\n"))
	must(t, err)
	<-asked
	os.Exit(status)
}

func TestExec(t *testing.T) {
	t.Parallel()
	orchestratortest.ExerciseTransport(t, func(t *testing.T) orchestratortest.Fixture {
		folder := t.TempDir()
		path := filepath.Join(folder, "builder.jsonl")
		t.Cleanup(func() { mustBeNobody(t, folder) })
		return orchestratortest.Fixture{
			Transport: transport.Exec{Grace: time.Hour}, // commands that are ended end on SIGTERM
			Address:   helper.Shell("append", path),
			Refused: []string{
				"", "  \n", "a\x00b", "cat '", "no-such-program-anywhere", filepath.Join(folder, "missing"), folder,
				"cat " + strings.Repeat("x", 4096),
			},
			Arrived: func(t *testing.T) []orchestratortest.Arrival { return arrived(t, path) },
			Block:   func(t *testing.T) func() { return hold(t, path) },
			Fail: func(t *testing.T) func() {
				must(t, os.WriteFile(path+".full", nil, 0o600))
				return func() { must(t, os.Remove(path+".full")) }
			},
			Says: "the shelf is full",
		}
	})
}

// The address is the command without surrounding blanks. A relative path is searched from where the command will
// run.
func TestExecCheck(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	must(t, os.WriteFile(filepath.Join(folder, "handler"), []byte("#!/bin/sh\n"), 0o700))
	command, err := transport.Exec{}.CheckIn(folder, "\n ./handler --flag  ")
	if command != "./handler --flag" || err != nil {
		t.Errorf("%q, %v", command, err)
	}
	if _, err := (transport.Exec{}).Check("./handler"); err == nil ||
		!strings.Contains(err.Error(), "relative paths start in the agent's folder") {
		t.Errorf("in another folder: %v", err)
	}
}

// mustBeNobody checks that no process is left whose environment names a folder.
func mustBeNobody(t *testing.T, folder string) {
	t.Helper()
	list, err := filepath.Glob("/proc/[0-9]*/environ")
	must(t, err)
	for _, path := range list {
		environ, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(environ), folder) {
			cmdline, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline")) // the process may be gone by now
			t.Errorf("%s is left: %q", filepath.Dir(path), cmdline)
		}
	}
}

// execute makes one attempt to deliver messages, and returns their common error and the report.
func execute(t *testing.T, command, folder string, ms ...orchestrator.Message) (report string, err error) {
	t.Helper()
	a := orchestrator.Attempt{
		Recipient: "builder", Address: command, Messages: ms, Folder: folder, Database: "mailroom.db",
		Report: func(text string) { report = text },
	}
	errs := transport.Exec{}.Deliver(t.Context(), a)
	if len(errs) != len(ms) {
		t.Fatalf("%d errors for %d messages", len(errs), len(ms))
	}
	for i := range errs {
		if !errors.Is(errs[i], errs[0]) {
			t.Errorf("one run, two outcomes: %v, %v", errs[0], errs[i])
		}
	}
	return report, errs[0]
}

// The meaning of each exit status, the text of the error, and the text for the trace.
func TestExecOutcomes(t *testing.T) {
	t.Parallel()
	for command, want := range map[string]struct {
		says, report string
		later        bool
	}{
		"true":              {},
		"echo done; exit 0": {report: "done\n"},
		"exit 3":            {says: "the command ended with exit status 3"},
		"echo doing; echo no disk >&2; exit 1": {says: "the command ended with exit status 1; output: doing\nno disk",
			report: "doing\nno disk\n"},
		"exit 75":                                  {says: "the recipient asked for a later retry: the command ended with exit status 75", later: true},
		"echo busy; exit 75":                       {says: "exit status 75; output: busy", report: "busy\n", later: true},
		"kill -SEGV $$":                            {says: "the command: ended by SIGSEGV"},
		"exec no-such-program-anywhere":            {says: "exit status 127; output: "},
		"yes 0123456789 | head -c 1000000; exit 9": {says: "exit status 9; output: 0123456789\n0123456789\n"},
	} {
		report, err := execute(t, command, "", note("m-1", "1"), note("m-2", "2"))
		if (err == nil) != (want.says == "") || err != nil && !strings.Contains(err.Error(), want.says) {
			t.Errorf("%s: %v; want %q", command, err, want.says)
		}
		if errors.Is(err, orchestrator.ErrTryLater) != want.later {
			t.Errorf("%s: to be tried later: %t", command, !want.later)
		}
		if err != nil && len(err.Error()) > 500 {
			t.Errorf("%s: the error has %d bytes", command, len(err.Error()))
		}
		if want.report != "" && report != want.report || len(report) > 3*program.TailSize {
			t.Errorf("%s: reported %.100q of %d bytes; want %q", command, report, len(report), want.report)
		}
	}
	if _, err := execute(t, "true", filepath.Join(t.TempDir(), "missing"), note("m", "1")); err == nil ||
		!strings.Contains(err.Error(), "create it") {
		t.Errorf("a folder that is missing: %v", err)
	}
}

// A command refuses its message for good with the statuses 65 to 69. A run with several messages refuses none.
func TestExecRefusals(t *testing.T) {
	t.Parallel()
	for status := range 256 {
		command := fmt.Sprintf("echo no such task; exit %d", status)
		_, alone := execute(t, command, "", note("m-1", "1"))
		if refused := status >= 65 && status <= 69; errors.Is(alone, orchestrator.ErrRefused) != refused {
			t.Errorf("%s: refused for good: %t; %v", command, !refused, alone)
		}
	}
	if _, err := execute(t, "exit 65", "", note("m-1", "1"), note("m-2", "2")); err == nil ||
		errors.Is(err, orchestrator.ErrRefused) {
		t.Errorf("a batch: %v", err)
	}
}

// The environment describes the message, and standard input has one line for each message.
func TestExecEnvironment(t *testing.T) {
	t.Parallel()
	folder, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	here, err := os.Getwd()
	must(t, err)
	first := note("m-1", `{"n":1.10}`)
	first.ThreadID, first.ReplyTo, first.Priority, first.Status, first.RetryCount = "thr-1", "m-0", -1,
		orchestrator.Retry, 1
	first.TraceID, first.SpanID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	second := note("m-2", `2`)
	second.Sender, second.Type = "other", "other"
	got, err := execute(t, "pwd -P; env | grep -E '^(MAILROOM_|TRACE)|^m-' | sort; cat", folder, first, second)
	must(t, err)
	want := folder + "\n" + strings.Join([]string{
		"MAILROOM_AGENT=builder", "MAILROOM_ATTEMPT=3", "MAILROOM_BATCH=2", "MAILROOM_DB=" + here + "/mailroom.db",
		"MAILROOM_MESSAGE_ID=m-1",
		"MAILROOM_MESSAGE_IDS=m-1", "MAILROOM_MESSAGE_TYPE=note", "MAILROOM_PRIORITY=-1", "MAILROOM_RECIPIENT=builder",
		"MAILROOM_REPLY_TO=m-0", "MAILROOM_SENDER=architect", "MAILROOM_THREAD_ID=thr-1",
		"TRACEPARENT=00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "m-2",
	}, "\n") + "\n" +
		`{"message_id":"m-1","sender":"architect","recipient":"builder","message_type":"note","payload":{"n":1.10},"status":"delivered",` +
		`"created_at":"2025-10-26T10:30:00.000Z","retry_count":1,"priority":-1,"thread_id":"thr-1","reply_to":"m-0",` +
		`"trace_id":"0af7651916cd43dd8448eb211c80319c","span_id":"b7ad6b7169203331"}` + "\n" +
		`{"message_id":"m-2","sender":"other","recipient":"builder","message_type":"other","payload":2,"status":"delivered",` +
		`"created_at":"2025-10-26T10:30:00.000Z","retry_count":0,"priority":0}` + "\n"
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// hostile lists texts that would have an effect if a shell read them, and some that no environment can hold.
var hostile = []string{
	`'; touch ran; '`, `"; touch ran; "`, `$(touch ran)`, "`touch ran`", "a\ntouch ran\n", `\`, `$HOME`,
	`; touch ran #`, "-n", "*", "a\x00b", "\xff\xfe",
	"=", "\r\n\t\v", strings.Repeat("x", 300_000), "${IFS}", "() { :; }; touch ran", "%s%n", "世界 👩",
}

// The shell reads no part of a message: the command gets each text unchanged to the byte.
func TestExecHostileTexts(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for _, text := range hostile {
		m := note("m-1", `1`)
		m.Sender, m.Type, m.ThreadID, m.ReplyTo, m.TraceID, m.SpanID, m.Summary = text, text, text, text, text, text,
			text
		if strings.ToValidUTF8(text, "") == text {
			m.ID, m.Payload = text, []byte(strconv.Quote("x"))
		}
		got, err := execute(t,
			`test "$(printf '%s\n' "$MAILROOM_MESSAGE_IDS" | wc -l)" -eq 1 || exit 1; printf '%s|' "$MAILROOM_MESSAGE_TYPE" "$MAILROOM_SENDER" "$MAILROOM_THREAD_ID" "$MAILROOM_REPLY_TO" > got; cat >> got; printf '%s' "$TRACEPARENT"`, folder, m)
		if err != nil || got != "" {
			t.Errorf("%.50q: %v, %q", text, err, got)
			continue
		}
		written, err := os.ReadFile(filepath.Join(folder, "got"))
		must(t, err)
		held := strings.ReplaceAll(text, "\x00", "\uFFFD")
		held = held[:min(len(held), program.MaxValue)]
		if rest, ok := strings.CutPrefix(string(written), strings.Repeat(held+"|", 4)); !ok ||
			!strings.HasPrefix(rest, `{"message_id":`) {
			t.Errorf("%.50q: the command got %.200q", text, written)
		}
	}
	list, err := os.ReadDir(folder)
	if err != nil || len(list) != 1 {
		t.Errorf("there is more than the command wrote: %v, %v", list, err)
	}
}

// toldToEnd makes an attempt with a command that prints "ready" to a named pipe, then ends its context. It returns
// the error once all processes that held the pipe are gone.
func toldToEnd(t *testing.T, e transport.Exec, command string, cause error) error {
	t.Helper()
	folder := t.TempDir()
	path := filepath.Join(folder, "line")
	must(t, unix.Mkfifo(path, 0o600))
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	result := make(chan error, 1)
	go func() {
		result <- e.Deliver(ctx, orchestrator.Attempt{
			Recipient: "builder", Folder: folder, Address: `exec 9> line; ` + command,
			Messages: []orchestrator.Message{note("m", "1")},
		})[0]
	}()
	line, err := os.Open(path)
	must(t, err)
	defer line.Close()
	word := make([]byte, 6)
	if _, err := io.ReadFull(line, word); err != nil || string(word) != "ready\n" {
		t.Fatalf("the command says %q, %v", word, err)
	}
	cancel(cause)
	err = <-result
	if rest, readErr := io.ReadAll(line); len(rest) > 0 || readErr != nil {
		t.Errorf("somebody said %q, %v", rest, readErr)
	}
	return err
}

// The delivery timeout ends a command and all processes that it started, with SIGTERM, or with SIGKILL if they
// ignore that. The exit status does not count then.
func TestExecTimeout(t *testing.T) {
	t.Parallel()
	deaf := `trap '' TERM; echo ready >&9; while :; do sleep 1000; done`
	for name, test := range map[string]struct {
		grace   time.Duration
		command string
		cause   error
		says    []string
	}{
		"term": {time.Hour, `echo working; echo ready >&9; sleep 1000; true`, context.DeadlineExceeded,
			[]string{"deadline exceeded", "SIGTERM", "working"}},
		"children": {time.Hour, `sleep 1000 & sleep 1000 & echo ready >&9; wait`, context.DeadlineExceeded,
			[]string{"SIGTERM"}},
		"exit 0": {time.Hour, helper.Shell("leaver", "0"), context.DeadlineExceeded, []string{"deadline exceeded"}},
		"exit 75": {time.Hour, helper.Shell("leaver", "75"), context.DeadlineExceeded,
			[]string{"deadline exceeded"}},
		"deaf":       {time.Millisecond, deaf, context.DeadlineExceeded, []string{"deadline exceeded", "SIGKILL"}},
		"deaf child": {time.Millisecond, `sh -c "` + deaf + `"; true`, context.DeadlineExceeded, []string{"SIGKILL"}},
		"stopping":   {time.Hour, deaf, orchestrator.ErrStopping, []string{"the process is stopping", "SIGKILL"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := toldToEnd(t, transport.Exec{Grace: test.grace}, test.command, test.cause)
			if err == nil || errors.Is(err, orchestrator.ErrTryLater) {
				t.Fatalf("%v", err)
			}
			for _, part := range test.says {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%v; want %q in it", err, part)
				}
			}
		})
	}
}

// A recipient has as many slots as its agent allows, over all processes that share the database.
func TestExecSlots(t *testing.T) {
	t.Parallel()
	database := filepath.Join(t.TempDir(), "mailroom.db")
	take := func(recipient string, limit int) orchestrator.Slot {
		slot, err := transport.Exec{}.Slot(database, recipient, limit)
		must(t, err)
		return slot
	}
	none := func(recipient string, limit int) {
		t.Helper()
		if _, err := (transport.Exec{}).Slot(database, recipient, limit); !errors.Is(err, orchestrator.ErrNoSlot) {
			t.Errorf("a slot too many of %d: %v", limit, err)
		}
	}
	first := take("builder", 1)
	none("builder", 1)
	none("builder", 0)
	second, third := take("builder", 3), take("builder", 3)
	none("builder", 3)
	take("builder-1", 1).Release()
	second.Release()
	take("builder", 3).Release()
	first.Release()
	third.Release()
	take("builder", 1).Release()
	if _, err := (transport.Exec{}).Slot(filepath.Join(database, "no", "such"), "builder", 1); err == nil ||
		errors.Is(err, orchestrator.ErrNoSlot) {
		t.Errorf("slots in a folder that is not there: %v", err)
	}
}

// A command is ended when its agent has approved a shutdown. The shutdown request counts as delivered. The other
// messages are retried later, which is not a failure.
func TestExecOfAnAgentThatStops(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	database, line := filepath.Join(folder, "mailroom.db"), filepath.Join(folder, "line")
	must(t, unix.Mkfifo(line, 0o600))
	request := note("m1", "1")
	request.Type = orchestrator.ShutdownRequest
	result := make(chan []error, 1)
	go func() {
		result <- transport.Exec{Grace: time.Hour}.Deliver(t.Context(), orchestrator.Attempt{
			Recipient: "builder", Folder: folder, Database: database, Address: `echo ready > line; sleep 1000`,
			Messages: []orchestrator.Message{request, note("m2", "2")},
		})
	}()
	_, err := os.ReadFile(line)
	must(t, err)
	if ended := program.EndAll(program.KeyOf(database, "builder"), program.ErrStopped); len(ended) != 1 {
		t.Fatalf("%d commands were ended", len(ended))
	}
	errs := <-result
	if errs[0] != nil || !errors.Is(errs[1], orchestrator.ErrTryLater) {
		t.Errorf("%v", errs)
	}
}
