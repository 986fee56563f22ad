// Package helper runs functions of a test in processes of their own. A test that needs another process starts the test
// program once more, as a helper: TestHelperProcess of the tested package then calls Run. The two talk in lines, over the
// helper's standard input and output.
package helper

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// environment is the variable that holds what a helper does: the name of a function and its arguments, each in a line.
const environment = "MAILROOM_TEST_HELPER"

// Function is what a helper does. It fails as a test does.
type Function func(t *testing.T, args []string)

// In is what a helper hears from its test.
var In = bufio.NewScanner(os.Stdin)

// Say tells a helper's test a line. It is written at once: a kill loses nothing of it.
func Say(format string, args ...any) { fmt.Printf(format+"\n", args...) }

// Run runs the function that this process was started for, and exits. In an ordinary test run it does nothing.
func Run(t *testing.T, functions map[string]Function) {
	args := strings.Split(os.Getenv(environment), "\n")
	f := functions[args[0]]
	if f != nil && t.Run(args[0], func(t *testing.T) { f(t, args[1:]) }) {
		os.Exit(0)
	}
}

// Command returns a command for a shell that becomes a helper.
func Command(name string, args ...string) string {
	return environment + "='" + strings.Join(append([]string{name}, args...), "\n") + "' exec '" + os.Args[0] + "' -test.run='^TestHelperProcess$'"
}

// Process is a helper process as its test sees it.
type Process struct {
	Lines <-chan string // what it says; closed when it has ended or was killed

	t       testing.TB
	cmd     *exec.Cmd
	in      io.Writer
	reading sync.WaitGroup // what it says
	err     error          // how it ended, once Lines is closed
}

// Start starts a helper, which ends with the test at the latest.
func Start(t testing.TB, name string, args ...string) *Process {
	t.Helper()
	lines := make(chan string, 10_000) // so that a helper need not wait for a test that does not listen
	p := &Process{Lines: lines, t: t, cmd: exec.Command(os.Args[0], "-test.run=^TestHelperProcess$")}
	p.cmd.Env = append(os.Environ(), environment+"="+strings.Join(append([]string{name}, args...), "\n"))
	p.cmd.Stderr = os.Stderr
	in, err := p.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.in = in
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.reading.Go(func() {
		defer close(lines)
		defer func() { p.err = p.cmd.Wait() }()
		for from := bufio.NewReader(out); ; {
			line, err := from.ReadString('\n')
			if err != nil {
				return // a line that was cut by a kill says nothing
			}
			lines <- strings.TrimSuffix(line, "\n")
		}
	})
	t.Cleanup(func() { p.Kill() })
	return p
}

// ID returns the number of the process.
func (p *Process) ID() int { return p.cmd.Process.Pid }

// Say sends the helper a line.
func (p *Process) Say(line string) {
	p.t.Helper()
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		p.t.Fatal(err)
	}
}

// Next waits for the helper's next line.
func (p *Process) Next() string {
	p.t.Helper()
	line, ok := <-p.Lines
	if !ok {
		p.t.Fatalf("the helper has ended: %v", p.err)
	}
	return line
}

// Expect waits for the helper's next line, and fails the test unless it is this one.
func (p *Process) Expect(line string) {
	p.t.Helper()
	if said := p.Next(); said != line {
		p.t.Fatalf("the helper said %q, not %q", said, line)
	}
}

// Until waits for a line that begins so.
func (p *Process) Until(prefix string) {
	p.t.Helper()
	var said []string
	for line := range p.Lines {
		if strings.HasPrefix(line, prefix) {
			return
		}
		said = append(said, line)
	}
	p.t.Fatalf("the helper ended without saying %q: %v\n%s", prefix, p.err, last(said))
}

// End waits until the helper has ended. It returns the lines that were left, and how the process ended.
func (p *Process) End() (said []string, err error) {
	for line := range p.Lines {
		said = append(said, line)
	}
	p.reading.Wait()
	return said, p.err
}

// Wait waits until the helper has ended, which must not have failed, and returns the lines that were left.
func (p *Process) Wait() []string {
	p.t.Helper()
	said, err := p.End()
	if err != nil {
		p.t.Fatalf("the helper: %v\n%s", err, last(said))
	}
	return said
}

// last returns the last of some lines.
func last(lines []string) string { return strings.Join(lines[max(0, len(lines)-20):], "\n") }

// Kill kills the helper, and returns the lines that were left when it is gone.
func (p *Process) Kill() []string {
	p.cmd.Process.Kill() // it may have ended
	said, _ := p.End()
	return said
}

// Terminate asks the helper to end, waits until it has, and returns the lines that were left.
func (p *Process) Terminate() []string {
	p.t.Helper()
	if err := p.cmd.Process.Signal(unix.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	return p.Wait()
}

// Stop stops the helper as ^Z does, and returns when it stands still.
func (p *Process) Stop() {
	p.t.Helper()
	if err := unix.Kill(p.cmd.Process.Pid, unix.SIGSTOP); err != nil {
		p.t.Fatal(err)
	}
	var status unix.WaitStatus
	for {
		_, err := unix.Wait4(p.cmd.Process.Pid, &status, unix.WUNTRACED, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil || !status.Stopped() {
			p.t.Fatalf("the helper did not stop: %v, status %v", err, status)
		}
		return
	}
}

// Resume lets a stopped helper go on.
func (p *Process) Resume() {
	p.t.Helper()
	if err := unix.Kill(p.cmd.Process.Pid, unix.SIGCONT); err != nil {
		p.t.Fatal(err)
	}
}
