package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// roles are the possible roles of an additional process in a run: `bench role NAME PARAMS`. It exchanges lines of
// JSON with the run that started it, and ends when its input ends.
var roles = map[string]func(r *Run, up *wire, params []byte){
	"sender":      role(senderRole),
	"waiter":      role(waiterRole),
	"ringer":      role(ringerRole),
	"nats-server": role(natsServerRole),
	"clearer":     role(clearerRole),
}

// role converts a function whose parameters are JSON to a role.
func role[P any](play func(r *Run, up *wire, params P)) func(*Run, *wire, []byte) {
	return func(r *Run, up *wire, text []byte) {
		var params P
		check(json.Unmarshal(text, &params))
		play(r, up, params)
	}
}

// runRole is the main function of a process with a role. args are the arguments after the word role.
func runRole(ctx context.Context, args []string) error {
	if len(args) != 2 || roles[args[0]] == nil {
		return fmt.Errorf("there is no role %q", args)
	}
	r := &Run{ctx: ctx}
	return r.do(func() { roles[args[0]](r, newWire(os.Stdin, os.Stdout), []byte(args[1])) })
}

// wire carries values as lines of JSON. One goroutine may read while another writes.
type wire struct {
	in  *json.Decoder
	out *json.Encoder
}

func newWire(in io.Reader, out io.Writer) *wire {
	return &wire{in: json.NewDecoder(bufio.NewReader(in)), out: json.NewEncoder(out)}
}

func (w *wire) say(v any) error  { return w.out.Encode(v) }
func (w *wire) hear(v any) error { return w.in.Decode(v) }

// heard returns the next value that a process sends.
func heard[T any](w *wire) (v T) {
	check(w.hear(&v))
	return v
}

// untilClosed waits for the end of the input.
func (w *wire) untilClosed() error {
	for {
		var ignored json.RawMessage
		if err := w.hear(&ignored); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// child is a process with a role.
type child struct {
	*wire
	cmd   *exec.Cmd
	stdin io.Closer
	ended bool
}

// startChild starts a process with a role, which ends with the run at the latest. It shares the standard error of
// this process.
func (r *Run) startChild(role string, params any) *child {
	cmd := exec.CommandContext(r.ctx, must(os.Executable()), "role", role, string(must(json.Marshal(params))))
	cmd.Stderr = os.Stderr
	in, out := must(cmd.StdinPipe()), must(cmd.StdoutPipe())
	check(cmd.Start())
	c := &child{wire: newWire(out, in), cmd: cmd, stdin: in}
	r.after(c.end)
	return c
}

// end closes the child's input and waits until the child has ended.
func (c *child) end() error {
	if c.ended {
		return nil
	}
	c.ended = true
	c.stdin.Close()
	if err := c.cmd.Wait(); err != nil {
		return fmt.Errorf("%v: %w", c.cmd.Args[1:], err)
	}
	return nil
}
