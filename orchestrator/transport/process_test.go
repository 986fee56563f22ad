package transport_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// A test that needs another process starts the test program once more, as a helper: TestHelperProcess then runs one of
// helperProcesses, which fails like a test. The helper says what it is doing in lines on its standard output.
const helperEnv = "MAILROOM_TEST_HELPER"

var helperProcesses = map[string]func(t *testing.T, args []string){
	"courier":      runCourier,
	"narrow":       runNarrow,
	"poster":       runPoster,
	"reader":       runReader,
	"unprivileged": runUnprivileged,
	"append":       runAppend,
	"runner":       runRunner,
	"leaver":       runLeaver,
}

func TestHelperProcess(t *testing.T) {
	role := os.Getenv(helperEnv)
	if role == "" {
		return // an ordinary test run
	}
	args := strings.Split(role, "\n")
	helperProcesses[args[0]](t, args[1:])
}

// say tells the test what the helper does. It is written at once: a kill loses nothing of it.
func say(format string, args ...any) { fmt.Printf(format+"\n", args...) }

// helper is a helper process as its test sees it.
type helper struct {
	t      *testing.T
	cmd    *exec.Cmd
	events <-chan string // what it says; closed when it has ended or was killed
	ended  chan error
}

// startHelper starts a helper, which ends with the test at the latest.
func startHelper(t *testing.T, args ...string) *helper {
	t.Helper()
	events := make(chan string, 1000)
	h := &helper{t: t, cmd: exec.Command(os.Args[0], "-test.run=^TestHelperProcess$"), events: events,
		ended: make(chan error, 1)}
	h.cmd.Env = append(os.Environ(), helperEnv+"="+strings.Join(args, "\n"))
	h.cmd.Stderr = os.Stderr
	out, err := h.cmd.StdoutPipe()
	must(t, err)
	must(t, h.cmd.Start())
	go func() {
		for in := bufio.NewReader(out); ; {
			text, err := in.ReadString('\n')
			if err != nil {
				break // a line that was cut by a kill says nothing
			}
			events <- strings.TrimSpace(text)
		}
		_, _ = io.Copy(io.Discard, out)
		close(events)
		h.ended <- h.cmd.Wait()
	}()
	t.Cleanup(func() {
		h.cmd.Process.Kill()
		for range h.events {
		}
	})
	return h
}

// kill ends the helper with SIGKILL and returns when it is gone.
func (h *helper) kill() {
	h.cmd.Process.Kill()
	for range h.events {
	}
	<-h.ended
}

// wait lets the helper come to its end, which must be a good one.
func (h *helper) wait() {
	h.t.Helper()
	var said []string
	for text := range h.events {
		said = append(said, text)
	}
	if err := <-h.ended; err != nil {
		h.t.Fatalf("the helper: %v\n%s", err, strings.Join(said[max(0, len(said)-20):], "\n"))
	}
}
