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
	"testing"

	"golang.org/x/sys/unix"
)

// environment is the variable that holds what a helper does.
const environment = "MAILROOM_TEST_HELPER"

// Run runs the function that this process was started for, with its argument and with what the test says, and exits. In an
// ordinary test run it does nothing.
func Run(functions map[string]func(arg string, in *bufio.Scanner)) {
	name, arg, _ := strings.Cut(os.Getenv(environment), "\n")
	if f := functions[name]; f != nil {
		f(arg, bufio.NewScanner(os.Stdin))
		os.Exit(0)
	}
}

// Process is a helper process as its test sees it.
type Process struct {
	Out *bufio.Scanner // the lines that it prints

	t   testing.TB
	cmd *exec.Cmd
	in  io.WriteCloser
}

// Start starts a helper, which ends with the test at the latest.
func Start(t testing.TB, name, arg string) *Process {
	t.Helper()
	p := &Process{t: t, cmd: exec.Command(os.Args[0], "-test.run=^TestHelperProcess$")}
	p.cmd.Env = append(os.Environ(), environment+"="+name+"\n"+arg)
	p.cmd.Stderr = os.Stderr
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.Out = bufio.NewScanner(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		p.cmd.Wait()
	})
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

// Expect waits for the helper's next line, and fails the test unless it is this one.
func (p *Process) Expect(line string) {
	p.t.Helper()
	if !p.Out.Scan() {
		p.t.Fatalf("the helper ended and did not say %q: %v", line, p.Out.Err())
	}
	if p.Out.Text() != line {
		p.t.Fatalf("the helper said %q, not %q", p.Out.Text(), line)
	}
}

// Kill kills the helper, hands over the lines that it had printed before, and returns when it is gone.
func (p *Process) Kill() (said []string) {
	p.t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		p.t.Fatal(err)
	}
	for p.Out.Scan() {
		said = append(said, p.Out.Text())
	}
	p.cmd.Wait()
	return said
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
