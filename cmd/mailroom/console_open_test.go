package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"mailroom/commands/surface/cli"
)

// TestConsoleIsOpened checks that the browser is opened with a file that only its owner can read and that leads to
// the address with the code. After the code was used, the file is removed. Ctrl-C before that ends the command as
// usual.
func TestConsoleIsOpened(t *testing.T) {
	home, programs := t.TempDir(), t.TempDir()
	env := map[string]string{"MAILROOM_DB": filepath.Join(t.TempDir(), "mailroom.db"), "HOME": home, "DISPLAY": ":0",
		"NO_COLOR": "1"}
	program := func(out io.Writer, terminal bool) *cli.Program {
		return &cli.Program{Config: config(), In: strings.NewReader(""), Out: out, Err: io.Discard,
			OutTerminal: terminal, Getenv: func(name string) string { return env[name] }}
	}
	called := filepath.Join(programs, "called")
	if err := syscall.Mkfifo(called, 0o600); err != nil {
		t.Fatal(err)
	}
	opener := "#!/bin/sh\necho \"$@\" >'" + called + "'\n"
	for _, name := range []string{"xdg-open", "open"} {
		if err := os.WriteFile(filepath.Join(programs, name), []byte(opener), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", programs+string(os.PathListSeparator)+os.Getenv("PATH"))
	if code := program(io.Discard, false).Run(t.Context(), []string{"mailroom", "init"}); code != 0 {
		t.Fatal("init ends with", code)
	}
	ctx, stop := context.WithCancel(t.Context())
	said, saying := io.Pipe()
	served := make(chan int, 1)
	go func() {
		served <- program(saying, false).Run(ctx, []string{"mailroom", "serve", "--listen", "127.0.0.1:0", "--json"})
		saying.Close()
	}()
	lines := bufio.NewScanner(said)
	for lines.Scan() && !strings.Contains(lines.Text(), "listening") {
	}
	drained := make(chan struct{})
	go func() { defer close(drained); io.Copy(io.Discard, said) }()
	defer func() { stop(); <-served; <-drained }()

	var out bytes.Buffer
	ended := make(chan int, 1)
	go func() { ended <- program(&out, true).Run(t.Context(), []string{"mailroom", "console"}) }()
	text, err := os.ReadFile(called)
	if err != nil {
		t.Fatal(err)
	}
	file := strings.TrimSpace(string(text))
	if !strings.HasPrefix(file, home+"/mailroom-console-") {
		t.Fatalf("the opener is called with %q", file)
	}
	for path, mode := range map[string]os.FileMode{file: 0o600, filepath.Dir(file): 0o700} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	link := regexp.MustCompile(`content="0; url=(http://127\.0\.0\.1:\d+)/#code=(mailroom_once_[\w-]+)"`).FindSubmatch(page)
	if link == nil {
		t.Fatalf("the page is %s", page)
	}
	answer, err := http.Post(string(link[1])+"/v1/console/session", "application/json",
		strings.NewReader(`{"code":"`+string(link[2])+`"}`))
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatal(answer, err)
	}
	answer.Body.Close()
	if code := <-ended; code != 0 || !strings.HasPrefix(out.String(), "Opened http://127.0.0.1:") ||
		strings.Contains(out.String(), "mailroom_once_") {
		t.Errorf("it ends with %d and says %s", code, &out)
	}

	out.Reset()
	ctrlC, interrupt := context.WithCancelCause(t.Context())
	go func() { ended <- program(&out, true).Run(ctrlC, []string{"mailroom", "console"}) }()
	if _, err := os.ReadFile(called); err != nil {
		t.Fatal(err)
	}
	interrupt(errors.New("interrupt signal received"))
	if code := <-ended; code != 130 || strings.Contains(out.String(), "mailroom_once_") {
		t.Errorf("after Ctrl-C it ends with %d and says %s", code, &out)
	}
	if left, err := os.ReadDir(home); err != nil || len(left) > 0 {
		t.Errorf("%v is left in the home folder, %v", left, err)
	}
}
