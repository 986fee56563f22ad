package browsertest

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"mailroom/orchestrator"
)

// process is a program of others that a test runs.
type process struct {
	t     *testing.T
	ctx   context.Context
	name  string
	lines feed[string] // of both its outputs
}

// run starts a program, in a group of its own with all that it starts. When the test ends the group is killed, and the
// last of it is waited for: whoever inherited the outputs is gone when they end. What it printed is shown when the test
// has failed.
func run(ctx context.Context, t *testing.T, env []string, name string, args ...string) *process {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = w, w
	cmd.SysProcAttr = attributes()
	err = cmd.Start()
	w.Close()
	if err != nil {
		r.Close()
		t.Fatalf("start %s: %v", name, err)
	}
	p := &process{t: t, ctx: ctx, name: name}
	ended := make(chan struct{})
	orchestrator.GoSafe("output of "+name, nil, func() {
		defer close(ended)
		defer p.lines.end()
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
	t.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		cmd.Wait()
		<-ended
		r.Close()
		if lines := p.lines.all(); t.Failed() && len(lines) > 0 {
			t.Logf("%s printed, at last:\n%s", name, strings.Join(lines[max(0, len(lines)-60):], "\n"))
		}
	})
	return p
}

// says waits for a line of the outputs, and returns its submatches.
func (p *process) says(pattern *regexp.Regexp) []string {
	p.t.Helper()
	line, err := p.lines.next(p.ctx, pattern.MatchString)
	if err != nil {
		p.t.Fatalf("%s does not print %s: %v", p.name, pattern, err)
	}
	return pattern.FindStringSubmatch(line)
}
