package kills

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// reader is a process of the program, with a pipe for its output.
type reader struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *os.File
	lines  *bufio.Reader // reads from out
	errors bytes.Buffer
	began  time.Time
}

// smallPipe is the size of a pipe in which an answer gets stuck. It is the smallest size that the system allows.
const smallPipe = 4096

// start starts a process. The caller must call wait, and close out.
func (o *office) start(stuck bool, words ...string) (*reader, error) {
	r := &reader{cmd: exec.Command(o.Program[0], append(slices.Clone(o.Program[1:]), words...)...)}
	r.cmd.Env, r.cmd.Stderr = o.environment(), &r.errors
	var err error
	if r.in, err = r.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, theirs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	if stuck {
		if _, err := unix.FcntlInt(out.Fd(), unix.F_SETPIPE_SZ, smallPipe); err != nil {
			return nil, err
		}
	}
	r.out, r.lines, r.cmd.Stdout, r.began = out, bufio.NewReader(out), theirs, time.Now()
	return r, r.cmd.Start()
}

// end kills a process, unless spared is set, and waits for its end. If the process had already ended, killed is
// false, and the exit status must be 0.
func (r *reader) end(spared bool) (killed bool, err error) {
	r.in.Close()
	if !spared {
		r.cmd.Process.Kill()
	}
	return r.wait()
}

func (r *reader) wait() (killed bool, err error) {
	err = r.cmd.Wait()
	if status, ok := r.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signal() == syscall.SIGKILL {
		return true, nil
	}
	if err != nil {
		err = fmt.Errorf("%q: %w: %s", r.cmd.Args[1:], err, strings.TrimSpace(r.errors.String()))
	}
	return false, err
}

// byCommand is the way of a command that reads, writes its answer and ends.
func byCommand(o *office, d *door, v *visit) (out outcome, err error) {
	r, err := o.start(v.stuck, d.words(o, v.agent)...)
	if err != nil {
		return out, err
	}
	defer r.out.Close()
	r.in.Close()
	var text []byte
	var reading sync.WaitGroup
	read := func() { text, _ = io.ReadAll(r.out) }
	over := make(chan struct{})
	if !v.stuck {
		reading.Go(func() { read(); close(over) })
	}
	begun := r.began
	if d.arriving {
		pause(o.ctx, v.before)
		begun = time.Now()
		err = o.feed(d, v)
	}
	if err == nil {
		out.took = until(o, over, begun, v.moment)
	}
	killed, kerr := r.end(v.spared)
	if v.stuck {
		read()
	}
	reading.Wait()
	out.killed, out.answers = killed, []answer{{v.name, text, json.Valid(text)}}
	return out, errors.Join(err, kerr)
}

// until waits until over is closed or the moment has come. It returns the time until over was closed, or 0 if the
// moment came first.
func until(o *office, over <-chan struct{}, begun time.Time, moment time.Duration) time.Duration {
	timer := time.NewTimer(time.Until(begun.Add(moment)))
	defer timer.Stop()
	select {
	case <-over:
		return time.Since(begun)
	case <-timer.C:
	case <-o.ctx.Done():
	}
	return 0
}

// Lines of an MCP client on standard input.
const (
	hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"kills","version":"1"}}}
`
	welcomed = `{"jsonrpc":"2.0","method":"notifications/initialized"}
`
	callID = `"id":2,`
)

// callOf returns the call of a door's tool.
func callOf(o *office, d *door, a *agent) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0",%s"method":"tools/call","params":{"name":%q,"arguments":%s}}`, callID, d.tool,
		d.args(o, a))
}

// byTool is the way of an MCP server on standard input and output, with one call of a tool.
func byTool(o *office, d *door, v *visit) (out outcome, err error) {
	r, err := o.start(v.stuck, "mcp", "--as", v.name)
	if err != nil {
		return out, err
	}
	defer r.out.Close()
	var greeting, text []byte
	if _, err = io.WriteString(r.in, hello); err == nil {
		greeting, err = r.lines.ReadBytes('\n')
	}
	begun := time.Now()
	if err == nil {
		_, err = io.WriteString(r.in, welcomed+callOf(o, d, v.agent)+"\n")
	}
	if err != nil {
		_, kerr := r.end(false)
		return out, errors.Join(fmt.Errorf("after %q: %w", greeting, err), kerr)
	}
	over := make(chan struct{})
	var reading sync.WaitGroup
	read := func() {
		for {
			line, err := r.lines.ReadBytes('\n')
			if text = append(text, line...); err != nil {
				return
			}
			if bytes.Contains(line, []byte(callID)) {
				close(over)
				io.Copy(io.Discard, r.lines)
				return
			}
		}
	}
	if !v.stuck {
		reading.Go(read)
	}
	if d.arriving {
		pause(o.ctx, v.before)
		begun = time.Now()
		err = o.feed(d, v)
	}
	if err == nil {
		out.took = until(o, over, begun, v.moment)
	}
	killed, kerr := r.end(v.spared)
	if v.stuck {
		read()
	}
	reading.Wait()
	out.killed = killed
	for line := range bytes.Lines(text) {
		whole := bytes.HasSuffix(line, []byte("\n")) && json.Valid(line)
		if whole && (bytes.Contains(line, []byte(`"isError":true`)) || bytes.Contains(line, []byte(`"error":{`))) {
			err = errors.Join(err, fmt.Errorf("the tool fails: %.300s", line))
		}
		out.answers = append(out.answers, answer{v.name, line, whole})
	}
	return out, errors.Join(err, kerr)
}

// command runs the program and waits for its end.
func (o *office) command(words ...string) ([]byte, error) {
	cmd := exec.Command(o.Program[0], append(slices.Clone(o.Program[1:]), words...)...)
	cmd.Env = o.environment()
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("%q: %w: %s%s", words, err, out, errs.Bytes())
	}
	return out, nil
}

// answer runs the program, waits for its end, and decodes its answer.
func (o *office) answer(into any, words ...string) error {
	out, err := o.command(words...)
	if err != nil {
		return err
	}
	return json.Unmarshal(out, into)
}
