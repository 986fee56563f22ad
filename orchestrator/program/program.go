//go:build unix

// Package program runs the commands of agents: each in a process group of its own, with bounded output, ended when its
// time is up, and with a lock that tells other processes for as long as it runs, even when ours is killed.
package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"mailroom/orchestrator"
)

// stoppingGrace is the longest Grace of a command that is ended because our process is about to exit.
const stoppingGrace = 1500 * time.Millisecond

// Command is a command of an agent. It runs in a process group of its own, and what is said here of a command holds for
// its group: what leaves that, as setsid(1) does, is on its own.
type Command struct {
	Text   string // for `sh -c`, as its owner wrote it; nothing from a message may be in it
	Folder string // where it runs; "" is here

	// Env is added, NAME=value each, to what it gets of our own environment. A NUL in a value, which no environment can
	// hold, is replaced, and a value longer than MaxValue is cut.
	Env []string

	// Passes lists what it gets of our own environment, in the form of CheckPasses: "" is everything but what is ours
	// alone.
	Passes string

	// Input is its standard input, whole from the start, so that it never sees half of it. nil is /dev/null.
	Input []byte

	// Log is a file that gets its output, which then outlives us: without it, whatever the command prints after our
	// death ends it. The file is made with mode 0600 and emptied at the start. It is kept below about MaxLog for as
	// long as we live, and in the end cut to what Result.Output says.
	Log string

	Slot  *Slot         // which it holds until it ends; nil is none
	Key   string        // by which EndAll finds it; "" is not at all
	Grace time.Duration // from SIGTERM to SIGKILL, once it is to end
}

// groupPoll is how often we look whether anybody is left in a group. The system tells nobody but the parent of each.
const groupPoll = 10 * time.Millisecond

// Result says how a command ended.
type Result struct {
	Status int            // its exit status, -1 when a signal ended it
	Signal syscall.Signal // that signal; 0 when none did
	Ended  error          // why it was ended from here; nil when it came to its end by itself
	Killed bool           // it, or what it had started, did not end on SIGTERM in time and was sent SIGKILL
	Output string         // what it wrote to standard output and standard error, see Tails
	Lost   error          // why its exit status is not known; nil when it is
}

// How says in words how the command ended: "exit status 3", "ended by SIGTERM".
func (r *Result) How() string {
	how := fmt.Sprintf("exit status %d", r.Status)
	switch {
	case r.Lost != nil:
		how = "exit status unknown: " + r.Lost.Error()
	case r.Signal != 0:
		how = "ended by " + unix.SignalName(r.Signal)
	}
	if r.Killed && r.Signal != syscall.SIGKILL {
		how += "; some of its processes ignored SIGTERM and were killed with SIGKILL"
	}
	return how
}

// Running is a command that was started. Its methods may be called concurrently.
type Running struct {
	command Command
	cmd     *exec.Cmd
	done    chan struct{} // closed when result is there

	mu     sync.Mutex
	over   bool // the command itself has ended: what it left in its group by then may go on
	gone   bool // nobody is left in the group: it gets no more signals
	result Result
	kill   *time.Timer
}

// Run runs a command to its end. An error means that it was not started. When ctx ends, the command is ended as End
// does, with the cause of ctx.
func Run(ctx context.Context, c Command) (Result, error) {
	r, err := Start(ctx, c)
	if err != nil {
		return Result{}, err
	}
	return r.Wait(), nil
}

// Start starts a command, which ends by itself, by End, or with ctx. Wait need not be called: nothing is left of a
// command that has ended. The error says what to do when the folder, the log or the shell is not there.
func Start(ctx context.Context, c Command) (r *Running, err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err := checkFolder(c.Folder); err != nil {
		return nil, err
	}
	r = &Running{command: c, done: make(chan struct{}), cmd: exec.Command("/bin/sh", "-c", c.Text)}
	r.cmd.Dir, r.cmd.Env = c.Folder, environment(os.Environ(), c.Passes, c.Env)
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := r.wire()
	if err != nil {
		return nil, err
	}
	gate, err := c.Slot.hold(r.cmd)
	if err != nil {
		out.close()
		return nil, err
	}
	if err := r.start(gate); err != nil {
		c.Slot.drop()
		out.close()
		return nil, fmt.Errorf("cannot start the command: %w", err)
	}
	out.closeOurs()
	unhook := context.AfterFunc(ctx, func() { r.End(context.Cause(ctx)) })
	orchestrator.GoSafe("command of an agent", nil, func() {
		defer close(r.done)
		defer c.Slot.drop()
		defer unregister(r)
		defer unhook()
		r.await(out)
	})
	return r, nil
}

// start starts the command, and opens its gate, if it has one.
func (r *Running) start(gate *gate) error {
	err := startRegistered(r)
	if err == nil {
		if err = gate.open(r.cmd.Process.Pid); err != nil {
			unregister(r)
			defer r.cmd.Process.Wait() // it ends, since its gate is closed
		}
	}
	gate.close()
	return err
}

// checkFolder says which folder is missing. The system would say that of the shell.
func checkFolder(folder string) error {
	if folder == "" {
		return nil
	}
	info, err := os.Stat(folder)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("the folder of the command, %s, does not exist; create it, or set another folder for the agent", folder)
	case err != nil:
		return fmt.Errorf("cannot read the folder of the command: %w", err)
	case !info.IsDir():
		return fmt.Errorf("the path %s is not a folder, so the command cannot run in it; set another folder for the agent", folder)
	}
	return nil
}

// await returns when the command has ended and its output is read.
func (r *Running) await(out *wiring) {
	state, err := r.cmd.Process.Wait()
	r.mu.Lock()
	r.over = true
	ending := r.kill != nil
	r.mu.Unlock()
	if ending {
		r.awaitGroup()
	}
	output := out.collect()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.result.Output, r.result.Lost, r.result.Status = output, err, -1
	if err != nil {
		return
	}
	r.result.Status = state.ExitCode()
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		r.result.Signal = status.Signal()
	}
}

// awaitGroup returns when nobody is left in the group of a command that was to end, or SIGKILL was sent. The shell may
// be gone while the program that it ran still tidies up.
func (r *Running) awaitGroup() {
	for {
		r.mu.Lock()
		gone := r.result.Killed || errors.Is(unix.Kill(-r.cmd.Process.Pid, 0), unix.ESRCH)
		if gone {
			r.kill.Stop()
		}
		r.gone = gone
		r.mu.Unlock()
		if gone {
			return
		}
		<-time.After(groupPoll)
	}
}

// PID is the number of the command's process and of its group.
func (r *Running) PID() int { return r.cmd.Process.Pid }

// Wait returns when the command has ended. What it has started in the background may go on; what that prints is lost.
func (r *Running) Wait() Result {
	<-r.done
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.result
}

// End asks the command's group to end with SIGTERM, and ends it with SIGKILL after Command.Grace. It does not wait, and
// does nothing for a command that has ended or was asked before. cause is what Result.Ended will be.
func (r *Running) End(cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over || r.kill != nil {
		return
	}
	grace := r.command.Grace
	if errors.Is(cause, orchestrator.ErrStopping) {
		grace = min(grace, stoppingGrace)
	}
	r.result.Ended = cause
	r.signal(unix.SIGTERM)
	r.signal(unix.SIGCONT) // a stopped one could not hear it
	r.kill = time.AfterFunc(grace, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.gone {
			r.result.Killed = true
			r.signal(unix.SIGKILL)
		}
	})
}

// signal sends a signal to the group. An error means that nobody is left in it.
func (r *Running) signal(s syscall.Signal) { _ = unix.Kill(-r.cmd.Process.Pid, s) }

// ErrStopped is the cause with which the commands of an agent are ended that has approved to be shut down.
var ErrStopped = errors.New("the agent has stopped")

// registry holds the commands of this process that run and have a key.
var registry = struct {
	sync.Mutex
	running map[*Running]bool
}{running: map[*Running]bool{}}

// startRegistered starts a command. EndAll waits meanwhile, so that it misses nothing that runs.
func startRegistered(r *Running) error {
	registry.Lock()
	defer registry.Unlock()
	err := r.cmd.Start()
	if err == nil && r.command.Key != "" {
		registry.running[r] = true
	}
	return err
}

func unregister(r *Running) {
	registry.Lock()
	defer registry.Unlock()
	delete(registry.running, r)
}

// KeyOf is the Command.Key of the commands of one agent in one database.
func KeyOf(database, agent string) string { return database + "\x00" + agent }

// EndAll ends, as Running.End does, every command of this process with a key, and returns them.
func EndAll(key string, cause error) (list []*Running) {
	registry.Lock()
	for r := range registry.running {
		if r.command.Key == key {
			list = append(list, r)
		}
	}
	registry.Unlock()
	for _, r := range list {
		r.End(cause)
	}
	return list
}
