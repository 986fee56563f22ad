package browsertest

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"mailroom/orchestrator"
)

// process is an external program that a test runs.
type process struct {
	cmd   *exec.Cmd
	lines feed[string]  // of both outputs
	ended chan struct{} // closed when both outputs have ended
}

// start starts a program in its own process group, which all its children join.
func start(env []string, name string, args ...string) (*process, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(name, args...), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = w, w
	p.cmd.SysProcAttr = attributes()
	err = p.cmd.Start()
	w.Close()
	if err != nil {
		r.Close()
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	orchestrator.GoSafe("output of "+name, nil, func() {
		defer close(p.ended)
		defer p.lines.end()
		defer r.Close()
		for in := bufio.NewReader(r); ; {
			line, err := in.ReadString('\n')
			if line = strings.TrimRight(line, "\r\n"); line != "" {
				p.lines.add(line)
			}
			if err != nil {
				return
			}
		}
	})
	return p, nil
}

// kill ends the program and all its children. It returns when the last of them has ended: all processes that
// inherited the outputs have ended when the outputs end.
func (p *process) kill() {
	syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	p.cmd.Wait()
	<-p.ended
}

// prints waits for a line of the outputs that matches, and returns its submatches.
func (p *process) prints(ctx context.Context, pattern *regexp.Regexp) ([]string, error) {
	line, err := p.lines.next(ctx, pattern.MatchString)
	if err != nil {
		return nil, fmt.Errorf("%s does not print %s: %w\n%s", p.cmd.Path, pattern, err, p.last())
	}
	return pattern.FindStringSubmatch(line), nil
}

// last returns the last lines that the program printed.
func (p *process) last() string {
	lines := p.lines.all()
	return strings.Join(lines[max(0, len(lines)-60):], "\n")
}

// run starts a program for a test, waits for a line of its outputs, and returns the submatches. The program is killed
// at the end of the test. If the test fails, its output is printed.
func run(ctx context.Context, t *testing.T, line *regexp.Regexp, env []string, name string, args ...string) (*process, []string) {
	t.Helper()
	p, err := start(env, name, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%s printed, at last:\n%s", name, p.last())
		}
	})
	found, err := p.prints(ctx, line)
	if err != nil {
		t.Fatal(err)
	}
	return p, found
}
