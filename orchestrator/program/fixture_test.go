package program_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mailroom/orchestrator/program"
)

// TestMain lets the test program play commands that a shell cannot play without a race.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && roles[os.Args[1]] != nil {
		roles[os.Args[1]]()
		return
	}
	status := m.Run()
	if pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil); !errors.Is(err, unix.ECHILD) {
		fmt.Printf("FAIL: a child is left, running or as a zombie: %d, %v\n", pid, err)
		status = 1
	}
	os.Exit(status)
}

var roles = map[string]func(){
	// tidy prints "ready", and on SIGTERM ends with its own status.
	"tidy": func() {
		asked := make(chan os.Signal, 1)
		signal.Notify(asked, unix.SIGTERM)
		ready()
		<-asked
		fmt.Println("tidied")
	},
	// deaf prints "ready" and ignores SIGTERM.
	"deaf": func() {
		asked := make(chan os.Signal, 1)
		signal.Notify(asked, unix.SIGTERM)
		ready()
		for range asked {
		}
	},
	"starter": starter,
}

// ready prints "ready" on the line and keeps the line open.
func ready() {
	fd, err := unix.Open(os.Getenv("LINE"), unix.O_WRONLY, 0)
	if err == nil {
		_, err = unix.Write(fd, []byte("ready\n"))
	}
	if err != nil {
		panic(err)
	}
}

// ages is a grace that never ends within a test, so a command that ends earlier has not needed SIGKILL.
const ages = time.Hour

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// run runs a command, which must end by itself.
func run(t *testing.T, c program.Command) program.Result {
	t.Helper()
	r, err := program.Run(t.Context(), c)
	must(t, err)
	if r.Ended != nil || r.Killed || r.Lost != nil {
		t.Fatalf("%+v", r)
	}
	return r
}

// line is a named pipe with which a command sends words to its test: `echo word > "$LINE"`. Any process that holds
// the pipe open is alive, as are all that a command starts after `exec 9> "$LINE"`.
type line struct {
	t    *testing.T
	path string
	r    *bufio.Reader
}

func newLine(t *testing.T) *line {
	t.Helper()
	path := filepath.Join(t.TempDir(), "line")
	must(t, unix.Mkfifo(path, 0o600))
	return &line{t: t, path: path}
}

func (l *line) env() string { return "LINE=" + l.path }

// hear waits for the next word.
func (l *line) hear() string {
	l.t.Helper()
	if l.r == nil {
		file, err := os.Open(l.path) // returns when a command opens it too
		must(l.t, err)
		l.t.Cleanup(func() { file.Close() })
		l.r = bufio.NewReader(file)
	}
	text, err := l.r.ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		l.t.Fatal(err)
	}
	return strings.TrimSpace(text)
}

// silent waits until no process holds the line open.
func (l *line) silent() {
	l.t.Helper()
	if rest := l.hear(); rest != "" {
		l.t.Fatalf("somebody said %q", rest)
	}
}

// endWhen starts a command and ends its context once it prints "ready" on the line.
func endWhen(t *testing.T, l *line, c program.Command, cause error) program.Result {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	c.Env = append(c.Env, l.env(), "TEST="+os.Args[0])
	r, err := program.Start(ctx, c)
	must(t, err)
	if word := l.hear(); word != "ready" {
		t.Fatalf("the command says %q; %+v", word, r.Wait())
	}
	cancel(cause)
	return r.Wait()
}
