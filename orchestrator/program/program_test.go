package program_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mailroom/orchestrator"
	"mailroom/orchestrator/program"
)

func TestRun(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for text, want := range map[string]program.Result{
		"exit 0":                               {},
		"exit 75":                              {Status: 75},
		"echo out; echo err >&2; exit 3":       {Status: 3, Output: "out\nerr\n"},
		"kill -9 $$":                           {Status: -1, Signal: unix.SIGKILL},
		"cat":                                  {Output: "the input\n"},
		"pwd -P | tr -d '\\n' && test -w .":    {Output: folder},
		"no-such-program-anywhere 2>/dev/null": {Status: 127},
		`echo "$A,$B"`:                         {Output: "1,a b'c\"$(x)`y`\n"},
		"printf 'a\\377b\\000c'":               {Output: "a\uFFFDb\uFFFDc"},
	} {
		got := run(t, program.Command{Text: text, Folder: folder, Input: []byte("the input\n"),
			Env: []string{"A=1", "B=a b'c\"$(x)`y`"}})
		if got != want {
			t.Errorf("%s: %+v; want %+v", text, got, want)
		}
	}
}

func TestHow(t *testing.T) {
	t.Parallel()
	for want, r := range map[string]program.Result{
		"exit status 3":    {Status: 3},
		"ended by SIGSEGV": {Status: -1, Signal: unix.SIGSEGV},
		"ended by SIGKILL": {Status: -1, Signal: unix.SIGKILL, Killed: true},
		"exit status 0; some of its processes ignored SIGTERM and were killed with SIGKILL": {Killed: true},
		"exit status unknown: no": {Lost: errors.New("no")},
	} {
		if got := r.How(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// The variables of the message for which a daemon itself was started are not passed on.
func TestEnvironmentIsOfThisMessage(t *testing.T) {
	t.Setenv("MAILROOM_MESSAGE_TYPE", "stale")
	t.Setenv("TRACEPARENT", "stale")
	t.Setenv("TRACESTATE", "stale")
	t.Setenv("KEPT", "kept")
	got := run(t, program.Command{
		Text: `echo "$MAILROOM_MESSAGE_TYPE,$TRACEPARENT,$TRACESTATE,$KEPT,$MAILROOM_AGENT,$NUL,${#LONG}"`,
		Env:  []string{"MAILROOM_AGENT=builder", "NUL=a\x00b", "LONG=" + strings.Repeat("x", 1<<20)},
	})
	if want := fmt.Sprintf(",,,kept,builder,a\uFFFDb,%d\n", program.MaxValue); got.Output != want {
		t.Errorf("%q, want %q", got.Output, want)
	}
}

// A command gets a secret of our environment only if its agent's list names it. Without a list it gets everything
// else; with a list it gets the listed variables and those that nearly every program needs.
func TestPasses(t *testing.T) {
	for _, name := range []string{
		"PGPASSWORD", "PGSSLPASSWORD", "OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
		"OTEL_EXPORTER_OTLP_METRICS_HEADERS", "OTEL_EXPORTER_OTLP_LOGS_HEADERS",
		"MAILROOM_TOKEN", "MAILROOM_DB", "MAILROOM_HOST_NAME", "PGHOST", "PGPASSFILE", "OTEL_EXPORTER_OTLP_ENDPOINT",
		"ANTHROPIC_API_KEY", "GIT_DIR", "GIT_AUTHOR_NAME", "XDG_STATE_HOME",
	} {
		t.Setenv(name, "of-the-daemon")
	}
	for list, gets := range map[string]string{
		"":                            "ANTHROPIC_API_KEY GIT_AUTHOR_NAME GIT_DIR MAILROOM_HOST_NAME OTEL_EXPORTER_OTLP_ENDPOINT PGHOST PGPASSFILE XDG_STATE_HOME",
		"*":                           "ANTHROPIC_API_KEY GIT_AUTHOR_NAME GIT_DIR MAILROOM_HOST_NAME OTEL_EXPORTER_OTLP_ENDPOINT PGHOST PGPASSFILE XDG_STATE_HOME",
		"*,PGPASSWORD":                "ANTHROPIC_API_KEY GIT_AUTHOR_NAME GIT_DIR MAILROOM_HOST_NAME OTEL_EXPORTER_OTLP_ENDPOINT PGHOST PGPASSFILE PGPASSWORD XDG_STATE_HOME",
		"GIT_*":                       "GIT_AUTHOR_NAME GIT_DIR MAILROOM_HOST_NAME XDG_STATE_HOME",
		"GIT_DIR,PG*":                 "GIT_DIR MAILROOM_HOST_NAME PGHOST PGPASSFILE XDG_STATE_HOME",
		"OTEL_*":                      "MAILROOM_HOST_NAME OTEL_EXPORTER_OTLP_ENDPOINT XDG_STATE_HOME",
		"OTEL_EXPORTER_OTLP_HEADERS":  "MAILROOM_HOST_NAME OTEL_EXPORTER_OTLP_HEADERS XDG_STATE_HOME",
		"NONE":                        "MAILROOM_HOST_NAME XDG_STATE_HOME",
		"MAILROOM_TOKEN,MAILROOM_DB*": "MAILROOM_HOST_NAME XDG_STATE_HOME", // a list that somebody wrote into the table
		", ;'":                        "MAILROOM_HOST_NAME XDG_STATE_HOME",
	} {
		got := run(t, program.Command{Text: `env | grep =of-the-daemon | cut -d= -f1 | LC_ALL=C sort | tr '\n' ' '`,
			Passes: list})
		if strings.TrimSpace(got.Output) != gets {
			t.Errorf("%q passes %s; want %s", list, got.Output, gets)
		}
	}
}

// CheckPasses converts lists to canonical form and refuses entries that cannot be names.
func TestCheckPasses(t *testing.T) {
	t.Parallel()
	for list, canonical := range map[string]string{
		"": "", " , ": "", "B, A,B": "A,B", "*,PGPASSWORD": "*,PGPASSWORD", "_x9*": "_x9*",
		"1A": "refused", "A-B": "refused", "A=B": "refused", "A**": "refused", "*A": "refused", "A;B": "refused",
		"Ä":           "refused",
		"MAILROOM_DB": "refused", "MAILROOM_*": "refused", "TRACEPARENT": "refused",
	} {
		got, err := program.CheckPasses(list)
		if err != nil {
			got = "refused"
		}
		if got != canonical {
			t.Errorf("%q becomes %q, %v; want %q", list, got, err, canonical)
		}
	}
}

// A command that reads its input only partly or not at all works, and one that reads all of it gets all of it.
func TestInputOfAnySize(t *testing.T) {
	t.Parallel()
	input := bytes.Repeat([]byte("0123456789abcde\n"), 1<<18) // 4 MiB, more than a pipe holds
	for text, want := range map[string]string{
		"true": "", "head -c 5": "01234", "exec <&-; echo closed": "closed\n", "wc -c | tr -d ' '": "4194304\n",
		"(sleep 0; wc -l) | tr -d ' '": "262144\n",
	} {
		if got := run(t, program.Command{Text: text, Input: input}); got.Status != 0 || got.Output != want {
			t.Errorf("%s: %+v", text, got)
		}
	}
	if got := run(t, program.Command{Text: "cat; echo done"}); got.Output != "done\n" {
		t.Errorf("without input: %+v", got)
	}
}

// Without in-memory files, an unnamed file is used, which leaves nothing behind.
func TestWithoutName(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	file, err := program.WithoutName()
	must(t, err)
	defer file.Close()
	_, err = file.WriteString("text")
	must(t, err)
	text := make([]byte, 9)
	if n, _ := file.ReadAt(text, 0); string(text[:n]) != "text" { // the error is the end of the file
		t.Errorf("%q", text[:n])
	}
	if list, err := os.ReadDir(os.TempDir()); len(list) > 0 || err != nil {
		t.Errorf("%v, %v", list, err)
	}
	t.Setenv("TMPDIR", filepath.Join(os.TempDir(), "missing"))
	if _, err := program.WithoutName(); err == nil {
		t.Error("a file was made in a folder that is not there")
	}
}

func TestNotStarted(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("too late"))
	file := filepath.Join(folder, "file")
	must(t, os.WriteFile(file, nil, 0o600))
	slot, err := program.TakeSlot(folder, "free")
	must(t, err)
	slot.Release()
	for want, try := range map[string]struct {
		ctx context.Context
		c   program.Command
	}{
		"too late": {ended, program.Command{}},
		"missing, does not exist; create it": {t.Context(),
			program.Command{Folder: filepath.Join(folder, "missing")}},
		"is not a folder": {t.Context(), program.Command{Folder: file}},
		"the output of the command": {t.Context(),
			program.Command{Log: filepath.Join(folder, "missing", "log")}},
		"the slot was released before": {t.Context(), program.Command{Slot: slot}},
	} {
		try.c.Text = "touch " + filepath.Join(folder, "ran")
		if _, err := program.Run(try.ctx, try.c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want something about %q", err, want)
		}
	}
	if _, err := os.Stat(filepath.Join(folder, "ran")); err == nil {
		t.Error("it ran")
	}
}

// SIGTERM ends the whole group without SIGKILL.
func TestEndOnTerm(t *testing.T) {
	t.Parallel()
	cause := errors.New("its time is up")
	for name, text := range map[string]string{
		"shell":              `exec 9> "$LINE"; echo ready >&9; sleep 1000; true`,
		"program":            `exec 9> "$LINE"; echo ready >&9; exec sleep 1000`,
		"tidies up":          `exec "$TEST" tidy`,
		"tidies below shell": `"$TEST" tidy; true`,
		"background":         `exec 9> "$LINE"; sleep 1000 & sleep 1000 & echo ready >&9; wait`,
		"stopped":            `exec 9> "$LINE"; echo ready >&9; kill -STOP $$; true`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLine(t)
			got := endWhen(t, l, program.Command{Text: text, Grace: ages}, cause)
			l.silent()
			if got.Ended != cause || got.Killed {
				t.Errorf("%+v", got)
			}
			if tidy := strings.Contains(text, "tidy"); tidy != (got.Output == "tidied\n") {
				t.Errorf("it printed %q", got.Output)
			}
		})
	}
}

// SIGKILL ends a command that ignores SIGTERM, with all its processes.
func TestEndOfAStoppedCommand(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("this system does not tell whether a process is stopped")
	}
	r, err := program.Start(t.Context(), program.Command{Text: "kill -STOP $$; sleep 1000", Grace: ages})
	must(t, err)
	for stopped := false; !stopped; runtime.Gosched() {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", r.PID()))
		must(t, err)
		stopped = strings.Contains(string(text), ") T ")
	}
	r.End(context.Canceled)
	if got := r.Wait(); got.Signal != unix.SIGTERM || got.Killed {
		t.Errorf("%+v", got)
	}
}

func TestEndByKill(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"itself":     `exec "$TEST" deaf`,
		"its child":  `"$TEST" deaf; true`,
		"background": `"$TEST" deaf & wait`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLine(t)
			got := endWhen(t, l, program.Command{Text: text, Grace: time.Millisecond}, context.DeadlineExceeded)
			l.silent()
			if !got.Killed || got.Ended != context.DeadlineExceeded || got.Status != -1 {
				t.Errorf("%+v", got)
			}
			if name == "itself" && got.How() != "ended by SIGKILL" {
				t.Errorf("in words: %s", got.How())
			}
		})
	}
}

// A process that must exit soon does not grant the whole grace.
func TestStoppingShortensGrace(t *testing.T) {
	t.Parallel()
	l := newLine(t)
	got := endWhen(t, l, program.Command{Text: `"$TEST" deaf`, Grace: ages}, orchestrator.ErrStopping)
	l.silent()
	if !got.Killed {
		t.Errorf("%+v", got)
	}
}

// A background process of a command delays nobody, although it holds the output open. It goes on even if somebody
// tries to end the command after its end.
func TestBackgroundGoesOn(t *testing.T) {
	t.Parallel()
	l := newLine(t)
	folder := t.TempDir()
	slot, err := program.TakeSlot(folder, "builder.0")
	must(t, err)
	r, err := program.Start(t.Context(), program.Command{
		Text: `echo before; (read word < "$WORD"; exec 9> "$LINE"; echo "$word" >&9) & exit 0`,
		Env:  []string{l.env(), "WORD=" + filepath.Join(folder, "word")}, Slot: slot, Grace: ages,
		Folder: mkfifo(t, folder, "word"),
	})
	must(t, err)
	got := r.Wait()
	r.End(errors.New("too late"))
	if again := r.Wait(); again != got || got.Output != "before\n" || got.Status != 0 || got.Ended != nil {
		t.Errorf("%+v, and then %+v", got, again)
	}
	slot.Release()
	again, err := program.TakeSlot(folder, "builder.0") // although the background process has a copy
	must(t, err)
	again.Release()
	must(t, os.WriteFile(filepath.Join(folder, "word"), []byte("alive\n"), 0))
	if word := l.hear(); word != "alive" {
		t.Errorf("the background says %q", word)
	}
	l.silent()
}

// mkfifo creates a named pipe in a folder and returns the folder.
func mkfifo(t *testing.T, folder, name string) string {
	t.Helper()
	must(t, unix.Mkfifo(filepath.Join(folder, name), 0o600))
	return folder
}

// A log gets the output instead of us, so that the command can outlive us.
func TestLog(t *testing.T) {
	t.Parallel()
	log := filepath.Join(t.TempDir(), "log")
	must(t, os.WriteFile(log, []byte("of the run before"), 0o600))
	got := run(t, program.Command{Text: "echo out; echo err >&2", Log: log})
	text, err := os.ReadFile(log)
	must(t, err)
	if string(text) != "out\nerr\n" || got.Output != "out\nerr\n" {
		t.Errorf("%q, %+v", text, got)
	}
	must(t, os.Symlink(log, log+".link"))
	if _, err := program.Run(t.Context(), program.Command{Text: "true", Log: log + ".link"}); err == nil {
		t.Error("it followed a symbolic link")
	}
}

// A log of any length takes no more than MaxLog on the disk while its command runs, and little more than the kept
// output in the end. The kept output is correct.
func TestLogIsBounded(t *testing.T) {
	t.Parallel()
	const lines, length = 6 << 10, 1 << 10 // 6 MiB at a time
	folder, l := mkfifo(t, t.TempDir(), "word"), newLine(t)
	log := filepath.Join(folder, "log")
	r, err := program.Start(t.Context(), program.Command{
		Text: fmt.Sprintf(`exec 9> "$LINE"; echo first
			for i in 1 2 3; do yes %s | head -n %d; echo ready >&9; read word < word; done; echo last`,
			strings.Repeat("x", length-1), lines),
		Folder: folder, Log: log, Env: []string{l.env()},
	})
	must(t, err)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range 3 {
		l.hear()
		for size := int64(program.MaxLog + 1); size > program.MaxLog; <-tick.C {
			info, err := os.Stat(log)
			must(t, err)
			size = info.Size()
		}
		text, err := os.ReadFile(log)
		must(t, err)
		if !strings.HasPrefix(string(text), "first\nxxx") || !strings.HasSuffix(string(text), "x\n") {
			t.Errorf("the log has %.20q ... %q", text, text[len(text)-20:])
		}
		must(t, os.WriteFile(filepath.Join(folder, "word"), []byte("go on\n"), 0))
	}
	output := r.Wait().Output
	before, rest, _ := strings.Cut(output, "\n[... ")
	number, after, _ := strings.Cut(rest, " bytes omitted ...]\n")
	left, err := strconv.Atoi(number)
	must(t, err)
	printed := len("first\nlast\n") + 3*lines*length
	if total := len(before) + left + len(after); total > printed || total < printed-lines*length {
		// except the bytes that are lost at a cut
		t.Errorf("%d bytes were printed, they say; %d left out", total, left)
	}
	if !strings.HasPrefix(before, "first\nxxx") || !strings.HasSuffix(after, "x\nlast\n") {
		t.Errorf("the output is %.20q ... %q", before, after[len(after)-20:])
	}
	text, err := os.ReadFile(log)
	must(t, err)
	if len(text) > 3*program.TailSize || !strings.HasPrefix(string(text), before) ||
		!strings.HasSuffix(string(text), after) {
		t.Errorf("the log has %d bytes left, %.20q ... %q", len(text), text, text[len(text)-20:])
	}
}

// Other processes bound the log of a command whose process was killed. A short or missing log is left alone.
func TestBoundLog(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, size := range map[string]int{"empty": 0, "short": 100, "full": program.MaxLog} {
		path := filepath.Join(folder, name)
		must(t, os.WriteFile(path, make([]byte, size), 0o600))
		removed, err := program.BoundLog(path)
		must(t, err)
		if info, err := os.Stat(path); err != nil || removed != 0 || info.Size() != int64(size) {
			t.Errorf("%s: %d bytes of %d are left, %v", name, info.Size(), size, err)
		}
	}
	if removed, err := program.BoundLog(filepath.Join(folder, "none")); removed != 0 || err != nil {
		t.Errorf("there is none: %d, %v", removed, err)
	}
	long, link := filepath.Join(folder, "long"), filepath.Join(folder, "link")
	must(t, os.WriteFile(long, make([]byte, program.MaxLog+1), 0o600))
	must(t, os.Symlink(long, link))
	if _, err := program.BoundLog(link); err == nil {
		t.Error("it followed a symbolic link")
	}
	removed, err := program.BoundLog(long)
	must(t, err)
	if info, err := os.Stat(long); err != nil || removed <= program.MaxLog/2 ||
		info.Size() != program.MaxLog+1-removed {
		t.Errorf("%d bytes removed, %d left, %v", removed, info.Size(), err)
	}
}

// EndAll ends the commands with its key, and no others.
func TestEndAll(t *testing.T) {
	t.Parallel()
	text := `exec 9> "$LINE"; echo ready >&9; read word < "$WORD"; echo "$word"`
	folder := t.TempDir()
	mkfifo(t, folder, "mine")
	mkfifo(t, folder, "other")
	start := func(key, word string) (*line, *program.Running) {
		l := newLine(t)
		r, err := program.Start(t.Context(), program.Command{
			Text: text, Key: key, Grace: ages, Env: []string{l.env(), "WORD=" + filepath.Join(folder, word)},
		})
		must(t, err)
		if word := l.hear(); word != "ready" {
			t.Fatalf("the command says %q", word)
		}
		return l, r
	}
	key := program.KeyOf(t.Name(), "builder")
	l, mine := start(key, "mine")
	m, other := start(program.KeyOf(t.Name(), "tester"), "other")
	cause := errors.New("a shutdown was approved")
	if list := program.EndAll(key, cause); len(list) != 1 || list[0].PID() != mine.PID() {
		t.Errorf("%v", list)
	}
	if got := mine.Wait(); got.Ended != cause || got.Signal != unix.SIGTERM {
		t.Errorf("%+v", got)
	}
	l.silent()
	mine.End(errors.New("too late"))
	if got := mine.Wait(); got.Ended != cause {
		t.Errorf("a command that had ended was ended again: %+v", got)
	}
	if list := program.EndAll(key, cause); len(list) != 0 {
		t.Errorf("it still runs: %v", list)
	}
	must(t, os.WriteFile(filepath.Join(folder, "other"), []byte("unharmed\n"), 0))
	if got := other.Wait(); got.Ended != nil || got.Output != "unharmed\n" {
		t.Errorf("%+v", got)
	}
	m.silent()
}
