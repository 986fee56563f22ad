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

// roles maps the names of the roles that another process of a run can have to their functions. The command is `bench
// role NAME PARAMS`. A role exchanges lines of JSON with the run that started it, and ends at the end of its input.
var roles = map[string]func(r *Run, up *wire, params []byte){
	"sender":      role(senderRole),
	"waiter":      role(waiterRole),
	"ringer":      role(ringerRole),
	"nats-server": role(natsServerRole),
	"clearer":     role(clearerRole),
}

// role returns a role that decodes its parameters from JSON and calls play.
func role[P any](play func(r *Run, up *wire, params P)) func(*Run, *wire, []byte) {
	return func(r *Run, up *wire, text []byte) {
		var params P
		check(json.Unmarshal(text, &params))
		play(r, up, params)
	}
}

// runRole is the main function of a process that has a role. args are the arguments after "role".
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

// heard returns the next value from the other process.
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

// child is a process that has a role.
type child struct {
	*wire
	cmd   *exec.Cmd
	stdin io.Closer
	ended bool
}

// startChild starts a process with a role. The process ends with the run at the latest. It uses the standard error of
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
