//go:build unix

// Package program runs the commands of agents. Each command runs in a process group of its own, with bounded output,
// and is ended when its time is up. A lock shows other processes that a command is running, even when this process is
// killed.
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

// stoppingGrace is the longest Grace of a command that is ended because this process is about to exit.
const stoppingGrace = 1500 * time.Millisecond

// Command describes a command of an agent. The command runs in a process group of its own, and the rules here hold
// for the whole group. A process that leaves the group, as with setsid(1), is no longer controlled.
type Command struct {
	Text   string // for `sh -c`, as its owner wrote it; must not contain text from a message
	Folder string // where the command runs; "" is the current folder

	// Env lists variables, NAME=value each, that are added to those from this process's own environment. A NUL in a
	// value, which no environment can hold, is replaced, and a value longer than MaxValue is cut.
	Env []string

	// Passes lists the variables of this process's environment that the command gets, in the form of CheckPasses. ""
	// is all variables except the secret ones and those of a message.
	Passes string

	// Input is the whole standard input. It is complete before the command starts, so the command never reads a part
	// of it. nil is /dev/null.
	Input []byte

	// Log is a file that receives the output, so that the command outlives this process. Without a log, a write to
	// the output after the death of this process ends the command. The file is created with mode 0600 and emptied at
	// the start. It is kept below about MaxLog while this process lives, and finally cut to the length of
	// Result.Output.
	Log string

	Slot  *Slot         // held until the command ends; nil for none
	Key   string        // key for EndAll; "" if EndAll must not find the command
	Grace time.Duration // time from SIGTERM to SIGKILL when the command is ended
}

// groupPoll is the interval between checks whether a group has any process left. The system notifies only the parent
// of each process.
const groupPoll = 10 * time.Millisecond

// Result describes how a command ended.
type Result struct {
	Status int            // exit status; -1 if a signal ended the command or Lost is set
	Signal syscall.Signal // the signal that ended the command; 0 if none did
	Ended  error          // why this process ended the command; nil if the command ended by itself
	Killed bool           // the group did not end on SIGTERM in time and was sent SIGKILL
	Output string         // standard output and standard error, see Tails
	Lost   error          // why the exit status is unknown; nil if it is known
}

// How describes how the command ended in words: "exit status 3", "ended by SIGTERM".
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
	over   bool // the command itself has ended; processes that it left in its group may go on
	gone   bool // no process is left in the group, so it gets no more signals
	result Result
	kill   *time.Timer
}

// Run runs a command to its end. An error means that the command was not started. When ctx ends, Run ends the command
// like End, with the cause of ctx.
func Run(ctx context.Context, c Command) (Result, error) {
	r, err := Start(ctx, c)
	if err != nil {
		return Result{}, err
	}
	return r.Wait(), nil
}

// Start starts a command. The command ends by itself, by End, or when ctx ends. Wait need not be called: a command
// that has ended leaves nothing to release. If the folder, the log or the shell does not exist, the error contains
// the remedy.
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

// start starts the command, and opens its gate if it has one.
func (r *Running) start(gate *gate) error {
	err := startRegistered(r)
	if err == nil {
		if err = gate.open(r.cmd.Process.Pid); err != nil {
			unregister(r)
			defer r.cmd.Process.Wait() // the command ends, since its gate is closed
		}
	}
	gate.close()
	return err
}

// checkFolder returns an error that names the folder if it is missing. The system's own error would name the shell as
// missing.
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

// await waits until the command has ended and its output is read.
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

// awaitGroup waits until the group of a command that is being ended has no process left, or SIGKILL was sent. The
// shell may be gone while the program that it ran is still cleaning up.
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

// PID returns the number of the command's process, which is also that of its group.
func (r *Running) PID() int { return r.cmd.Process.Pid }

// Wait waits until the command has ended. Processes that it started in the background may go on; their later output
// is lost.
func (r *Running) Wait() Result {
	<-r.done
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.result
}

// End sends SIGTERM to the command's group, and SIGKILL after Command.Grace. It does not wait. It does nothing if the
// command has ended or End was called before. Result.Ended will be cause.
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
	r.signal(unix.SIGCONT) // a suspended process cannot handle SIGTERM
	r.kill = time.AfterFunc(grace, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.gone {
			r.result.Killed = true
			r.signal(unix.SIGKILL)
		}
	})
}

// signal sends a signal to the group. It ignores errors: an error means that no process is left in the group.
func (r *Running) signal(s syscall.Signal) { _ = unix.Kill(-r.cmd.Process.Pid, s) }

// ErrStopped is the cause with which the commands of an agent are ended after the agent has approved its shutdown.
var ErrStopped = errors.New("the agent has stopped")

// registry holds the running commands of this process that have a key.
var registry = struct {
	sync.Mutex
	running map[*Running]bool
}{running: map[*Running]bool{}}

// startRegistered starts a command and registers it. EndAll waits meanwhile, so that it misses no running command.
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

// EndAll ends, like Running.End, every command of this process that has the given key, and returns these commands.
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
