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
	"time"

	"golang.org/x/sys/unix"
)

// roles are what a further process of a run can be: `bench role NAME PARAMS`. A role talks with the run that started it
// by lines of JSON, and ends when its input does.
var roles = map[string]func(ctx context.Context, up *wire, params json.RawMessage) error{
	"sender":      senderRole,
	"waiter":      waiterRole,
	"ringer":      ringerRole,
	"nats-server": natsServerRole,
	"clearer":     clearerRole,
}

// runRole is the main function of such a process. args are what follows the word role.
func runRole(ctx context.Context, args []string) error {
	if len(args) != 2 || roles[args[0]] == nil {
		return fmt.Errorf("there is no role %q", args)
	}
	return roles[args[0]](ctx, newWire(os.Stdin, os.Stdout), json.RawMessage(args[1]))
}

// wire carries values as lines of JSON. Reading and writing may be done by two goroutines.
type wire struct {
	in  *json.Decoder
	out *json.Encoder
}

func newWire(in io.Reader, out io.Writer) *wire {
	return &wire{in: json.NewDecoder(bufio.NewReader(in)), out: json.NewEncoder(out)}
}

func (w *wire) say(v any) error  { return w.out.Encode(v) }
func (w *wire) hear(v any) error { return w.in.Decode(v) }

// untilClosed waits for the end of the input.
func (w *wire) untilClosed() error {
	var ignored json.RawMessage
	for {
		if err := w.hear(&ignored); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// child is a process that plays a role.
type child struct {
	*wire
	cmd   *exec.Cmd
	stdin io.Closer
}

// startChild starts a process that plays a role. It is killed when ctx ends. Its standard error is this process's.
func startChild(ctx context.Context, role string, params any) (*child, error) {
	text, err := json.Marshal(params)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, "role", role, string(text))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &child{wire: newWire(out, in), cmd: cmd, stdin: in}, nil
}

// end closes the child's input and waits until it is gone.
func (c *child) end() error {
	c.stdin.Close()
	if err := c.cmd.Wait(); err != nil {
		return fmt.Errorf("%v: %w", c.cmd.Args[1:], err)
	}
	return nil
}

// endAll ends all children, and returns the first failure.
func endAll(children []*child) (err error) {
	for _, c := range children {
		err = errors.Join(err, c.end())
	}
	return err
}

// uptime is the time since the machine started. Unlike other clocks it is the same in all processes and never set.
func uptime() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // no Linux or macOS is without it
	}
	return time.Duration(t.Nano())
}

// cpuTime is what a process has used of the processors so far.
func cpuTime(pid int) (time.Duration, error) {
	const scheduled = 2                               // CPUCLOCK_SCHED
	clock := int32(int64(^pid)<<3 | int64(scheduled)) // MAKE_PROCESS_CPUCLOCK of the kernel's headers
	var t unix.Timespec
	if err := unix.ClockGettime(clock, &t); err != nil {
		return 0, fmt.Errorf("processor time of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}

// idleCPU watches a process that should do nothing, and returns the milliseconds of processor time that it used per
// second.
func idleCPU(ctx context.Context, pid int, watched time.Duration) (float64, error) {
	before, err := cpuTime(pid)
	if err != nil {
		return 0, err
	}
	began := uptime()
	if err := rest(ctx, watched); err != nil {
		return 0, err
	}
	after, err := cpuTime(pid)
	if err != nil {
		return 0, err
	}
	return float64(after-before) / float64(time.Millisecond) / (uptime() - began).Seconds(), nil
}

// rest waits.
func rest(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// scaled is how often something is done in this run: n in a full one, never less than least.
func scaled(env Env, n, least int) int { return max(least, int(float64(n)*env.Scale)) }

// scaledTime is how long something is done in this run.
func scaledTime(env Env, d, least time.Duration) time.Duration {
	return max(least, time.Duration(float64(d)*env.Scale))
}
