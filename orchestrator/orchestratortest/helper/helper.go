// Package helper runs functions of a test in separate processes. A test that needs another process starts the test
// program again as a helper: TestHelperProcess of the tested package then calls Run or RunTest. Test and helper
// exchange lines over the helper's standard input and output.
package helper

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

// environment is the variable that selects the function of a helper.
const environment = "MAILROOM_TEST_HELPER"

// asked returns the name of the function for which this process was started, and its arguments. name is "" in an
// ordinary test run.
func asked() (name, args string) {
	name, args, _ = strings.Cut(os.Getenv(environment), "\n")
	return name, args
}

// Run calls the function for which this process was started, with its argument and its standard input, and exits. In
// an ordinary test run it does nothing.
func Run(functions map[string]func(arg string, in *bufio.Scanner)) {
	name, arg := asked()
	if f := functions[name]; f != nil {
		f(arg, bufio.NewScanner(os.Stdin))
		os.Exit(0)
	}
}

// RunTest calls the function for which this process was started, with its arguments. The function can fail as a test
// does. RunTest does not exit: the process ends as one that has run a test.
func RunTest(t *testing.T, functions map[string]func(t *testing.T, args []string)) {
	name, args := asked()
	if f := functions[name]; f != nil {
		f(t, strings.Split(args, "\n"))
	}
}

// Shell returns a shell command that becomes a helper.
func Shell(name string, args ...string) string {
	return environment + "='" + strings.Join(append([]string{name}, args...), "\n") + "' exec '" + os.Args[0] +
		"' -test.run='^TestHelperProcess$'"
}

// Process is a helper process as seen by its test.
type Process struct {
	Lines <-chan string // lines that it prints; closed when it has ended

	t     testing.TB
	cmd   *exec.Cmd
	in    io.WriteCloser
	ended error // set when Lines is closed
}

// Start starts a helper, which is killed at the end of the test. Up to 10,000 printed lines are buffered.
func Start(t testing.TB, name string, args ...string) *Process {
	t.Helper()
	lines := make(chan string, 10_000)
	p := &Process{Lines: lines, t: t, cmd: exec.Command(os.Args[0], "-test.run=^TestHelperProcess$")}
	p.cmd.Env = append(os.Environ(), environment+"="+strings.Join(append([]string{name}, args...), "\n"))
	p.cmd.Stderr = os.Stderr
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(lines)
		defer func() {
			if v := recover(); v != nil {
				p.ended = fmt.Errorf("reading what it prints: %v", v)
			}
		}()
		for in := bufio.NewReader(out); ; {
			text, err := in.ReadString('\n')
			if err != nil {
				break // ignore a line that a kill cut short
			}
			lines <- strings.TrimSpace(text)
		}
		p.ended = p.cmd.Wait()
	}()
	t.Cleanup(func() { p.Kill() })
	return p
}

// ID returns the process ID.
func (p *Process) ID() int { return p.cmd.Process.Pid }

// Say sends the helper a line.
func (p *Process) Say(line string) {
	p.t.Helper()
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		p.t.Fatal(err)
	}
}

// Expect waits for the helper's next line, and ends the test if it differs from line.
func (p *Process) Expect(line string) {
	p.t.Helper()
	if said, ok := <-p.Lines; !ok {
		p.t.Fatalf("the helper ended and did not say %q: %v", line, p.ended)
	} else if said != line {
		p.t.Fatalf("the helper said %q, not %q", said, line)
	}
}

// Until reads the helper's lines until one begins with prefix.
func (p *Process) Until(prefix string) {
	p.t.Helper()
	var said []string
	for text := range p.Lines {
		if strings.HasPrefix(text, prefix) {
			return
		}
		said = append(said, text)
	}
	p.t.Fatalf("the helper ended without saying %q; its last words:\n%s", prefix, lastOf(said))
}

// lastOf returns the last 20 lines of a helper.
func lastOf(said []string) string { return strings.Join(said[max(0, len(said)-20):], "\n") }

// End waits until the helper has ended, and returns its unread lines and its exit error.
func (p *Process) End() (said []string, err error) {
	for text := range p.Lines {
		said = append(said, text)
	}
	return said, p.ended
}

// Wait waits until the helper has ended, returns its unread lines, and ends the test if the helper failed.
func (p *Process) Wait() []string {
	p.t.Helper()
	said, err := p.End()
	if err != nil {
		p.t.Fatalf("the helper: %v\n%s", err, lastOf(said))
	}
	return said
}

// Kill kills the helper, waits until it has ended, and returns its unread lines.
func (p *Process) Kill() (said []string) {
	p.cmd.Process.Kill() // it may have ended by itself
	said, _ = p.End()
	return said
}

// Stop stops the helper as ^Z does, and returns when it has stopped.
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

// Resume continues a stopped helper.
func (p *Process) Resume() {
	p.t.Helper()
	if err := unix.Kill(p.cmd.Process.Pid, unix.SIGCONT); err != nil {
		p.t.Fatal(err)
	}
}
