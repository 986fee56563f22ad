package main

import (
	"fmt"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// peakMemory runs a command and returns its largest resident memory, in KiB.
//
// The kernel's own figure (ru_maxrss) is unusable: it begins with the memory of the process that started the command,
// which is larger. Therefore peakMemory traces the command, and reads its memory just before it ends.
func peakMemory(cmd *exec.Cmd) (kib int64, err error) {
	runtime.LockOSThread() // only the thread that started tracing may trace
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	pid := cmd.Process.Pid
	defer cmd.Process.Release()
	for first := true; ; first = false {
		var status unix.WaitStatus
		if _, err := unix.Wait4(pid, &status, unix.WALL, nil); err != nil {
			return 0, fmt.Errorf("waiting for %v: %w", cmd.Args, err)
		}
		signal := 0
		switch {
		case status.Exited() && status.ExitStatus() == 0:
			return kib, nil
		case !status.Stopped():
			return 0, fmt.Errorf("%v ended with status %#x", cmd.Args, status)
		case first:
			if err := unix.PtraceSetOptions(pid, unix.PTRACE_O_TRACEEXIT|unix.PTRACE_O_EXITKILL); err != nil {
				return 0, err
			}
		case status.TrapCause() == unix.PTRACE_EVENT_EXIT:
			if kib, err = vmField(pid, "VmHWM"); err != nil {
				return 0, err
			}
		case status.StopSignal() != unix.SIGTRAP:
			signal = int(status.StopSignal())
		}
		if err := unix.PtraceCont(pid, signal); err != nil {
			return 0, err
		}
	}
}
