//go:build unix

// Package program runs the commands of agents. Each command runs in its own process group, with bounded output and
// a time limit. A lock shows other processes that the command is running, even after our process was killed.
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

// Command is a command of an agent. It runs in its own process group, and its fields apply to the whole group. A
// process that leaves the group, as with setsid(1), is not controlled.
type Command struct {
	Text   string // for `sh -c`, as its owner wrote it; must not contain any part of a message
	Folder string // where the command runs; "" is the current folder

	// Env lists variables, as NAME=value, to add to those passed from our own environment. A NUL in a value is
	// replaced, because an environment cannot contain it, and a value longer than MaxValue is cut.
	Env []string

	// Passes lists the variables of our own environment that the command gets, in the form of CheckPasses. "" is
	// all except our secrets.
	Passes string

	// Input is the whole standard input. It is complete at the start, so the command never reads half of it. Nil is
	// /dev/null.
	Input []byte

	// Log is a file for the command's output. With Log, the command can outlive our process; without it, output
	// after our death ends the command. The file is created with mode 0600 and emptied at the start. It is kept
	// below about MaxLog while our process lives, and finally cut to the content of Result.Output.
	Log string

	Slot  *Slot         // held until the command ends; nil is none
	Key   string        // identifies the command for EndAll; "" excludes it
	Grace time.Duration // time from SIGTERM to SIGKILL
}

// groupPoll is how often we check whether a group is empty. The system notifies only the parent of each process.
const groupPoll = 10 * time.Millisecond

// Result is the result of a command.
type Result struct {
	Status int            // exit status, or -1 if a signal ended the command
	Signal syscall.Signal // the signal that ended it; 0 if none did
	Ended  error          // why this process ended it; nil if it ended by itself
	Killed bool           // a process of the group ignored SIGTERM and was sent SIGKILL
	Output string         // standard output and standard error, see Tails
	Lost   error          // why the exit status is unknown; nil if it is known
}

// How describes how the command ended: "exit status 3", "ended by SIGTERM".
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
	done    chan struct{} // closed when result is set

	mu     sync.Mutex
	over   bool // the command has ended; processes that it left in its group may go on
	gone   bool // the group is empty and gets no more signals
	result Result
	kill   *time.Timer
}

// Run runs a command and waits until it has ended. An error means that the command was not started. When ctx ends,
// the command is ended with the cause of ctx; see Running.End.
func Run(ctx context.Context, c Command) (Result, error) {
	r, err := Start(ctx, c)
	if err != nil {
		return Result{}, err
	}
	return r.Wait(), nil
}

// Start starts a command. The command ends by itself, by End, or with ctx. Wait need not be called to release
// resources. If the folder, the log or the shell is missing, the error describes what to do.
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

// start starts the command and opens its gate, if it has one.
func (r *Running) start(gate *gate) error {
	err := startRegistered(r)
	if err == nil {
		if err = gate.open(r.cmd.Process.Pid); err != nil {
			unregister(r)
			defer r.cmd.Process.Wait() // the command ends because its gate is closed
		}
	}
	gate.close()
	return err
}

// checkFolder returns an error that names a missing folder. The system's error would name the shell.
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

// awaitGroup returns when the group of a command that is to end is empty, or when SIGKILL was sent. The shell may
// have ended while the program that it ran is still cleaning up.
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

// PID returns the process ID of the command, which is also that of its group.
func (r *Running) PID() int { return r.cmd.Process.Pid }

// Wait waits until the command has ended and returns its result. Processes that the command started in the
// background may go on; their output is lost.
func (r *Running) Wait() Result {
	<-r.done
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.result
}

// End sends SIGTERM to the command's group, and SIGKILL after Command.Grace. It does not wait. It does nothing if
// the command has ended or End was called before. cause becomes Result.Ended.
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
	r.signal(unix.SIGCONT) // a stopped process handles SIGTERM only when it continues
	r.kill = time.AfterFunc(grace, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.gone {
			r.result.Killed = true
			r.signal(unix.SIGKILL)
		}
	})
}

// signal sends a signal to the group. An error means that the group is empty.
func (r *Running) signal(s syscall.Signal) { _ = unix.Kill(-r.cmd.Process.Pid, s) }

// ErrStopped is the cause with which an agent's commands are ended after the agent approved a shutdown.
var ErrStopped = errors.New("the agent has stopped")

// registry holds the running commands of this process that have a key.
var registry = struct {
	sync.Mutex
	running map[*Running]bool
}{running: map[*Running]bool{}}

// startRegistered starts and registers a command. EndAll waits meanwhile, so that it misses no running command.
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

// KeyOf returns the Command.Key of the commands of one agent in one database.
func KeyOf(database, agent string) string { return database + "\x00" + agent }

// EndAll calls End for every command of this process with this key, and returns the commands.
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
