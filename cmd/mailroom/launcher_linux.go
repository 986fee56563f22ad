package main

import (
	"os"
	"strconv"
	"syscall"
)

// init ties this process to the launcher of the npm package, which names itself in MAILROOM_LAUNCHER: if the launcher
// is killed, the kernel kills this process, too. Otherwise, a `wait` would outlive its killed reader and take messages
// that nobody reads. The kernel watches for the thread that asks, and init runs in the first thread, which never ends.
func init() {
	launcher, err := strconv.Atoi(os.Getenv("MAILROOM_LAUNCHER"))
	if err != nil || launcher != os.Getppid() {
		return
	}
	syscall.RawSyscall(syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0)
	if os.Getppid() != launcher { // it was killed before the call
		os.Exit(int(128 + syscall.SIGKILL))
	}
}
