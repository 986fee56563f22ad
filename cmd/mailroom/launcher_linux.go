package main

import (
	"os"
	"strconv"
	"syscall"
)

// init ties this process to the launcher of the npm package, which names itself in MAILROOM_LAUNCHER: if the launcher
// is killed, the kernel kills this process, too. Otherwise, a `wait` would outlive its killed reader and take messages
// that nobody reads. The kernel signals the thread that asked, and init runs in the first thread, which never ends.
func init() {
	launcher := os.Getenv("MAILROOM_LAUNCHER")
	if launcher == "" {
		return
	}
	os.Unsetenv("MAILROOM_LAUNCHER") // it is not the launcher of programs that this process starts
	syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0)
	if strconv.Itoa(os.Getppid()) != launcher { // it was killed before the call
		os.Exit(int(128 + syscall.SIGKILL))
	}
}
