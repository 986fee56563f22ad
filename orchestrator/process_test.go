package orchestrator

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A test that needs another process starts the test program once more, as a helper: TestHelperProcess then runs one of
// helperProcesses. The two talk in lines, over the helper's standard input and output.
const helperEnv = "MAILROOM_TEST_HELPER"

var helperProcesses = map[string]func(path string, in *bufio.Scanner){
	"turnstile hold":  helpHold,
	"turnstile count": helpCount,
	"bell listen":     helpListen,
	"bell ring":       helpRing,
	"post":            helpPost,
	"wait":            helpWait,
}

func TestHelperProcess(t *testing.T) {
	role := os.Getenv(helperEnv)
	if role == "" {
		return // an ordinary test run
	}
	name, path, _ := strings.Cut(role, "\n")
	helperProcesses[name](path, bufio.NewScanner(os.Stdin))
	os.Exit(0)
}

// helper is a helper process as its test sees it.
type helper struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

// startHelper starts a helper, which ends with the test at the latest.
func startHelper(t *testing.T, name, path string) *helper {
	t.Helper()
	h := &helper{t: t, cmd: exec.Command(os.Args[0], "-test.run=^TestHelperProcess$")}
	h.cmd.Env = append(os.Environ(), helperEnv+"="+name+"\n"+path)
	h.cmd.Stderr = os.Stderr
	var err error
	if h.in, err = h.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	h.out = bufio.NewScanner(out)
	if err := h.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		h.cmd.Process.Kill()
		h.cmd.Wait()
	})
	return h
}

func (h *helper) say(line string) {
	h.t.Helper()
	if _, err := fmt.Fprintln(h.in, line); err != nil {
		h.t.Fatal(err)
	}
}

// expect waits for the helper's next line.
func (h *helper) expect(line string) {
	h.t.Helper()
	if !h.out.Scan() {
		h.t.Fatalf("the helper ended and did not say %q: %v", line, h.out.Err())
	}
	if h.out.Text() != line {
		h.t.Fatalf("the helper said %q, not %q", h.out.Text(), line)
	}
}

// stop stops the helper as ^Z does, and returns when it stands still.
func (h *helper) stop() {
	h.t.Helper()
	if err := unix.Kill(h.cmd.Process.Pid, unix.SIGSTOP); err != nil {
		h.t.Fatal(err)
	}
	var status unix.WaitStatus
	for {
		_, err := unix.Wait4(h.cmd.Process.Pid, &status, unix.WUNTRACED, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil || !status.Stopped() {
			h.t.Fatalf("the helper did not stop: %v, status %v", err, status)
		}
		return
	}
}

func (h *helper) resume() {
	h.t.Helper()
	if err := unix.Kill(h.cmd.Process.Pid, unix.SIGCONT); err != nil {
		h.t.Fatal(err)
	}
}
