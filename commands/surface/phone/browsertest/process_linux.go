package browsertest

import "syscall"

// attributes put a child into a process group of its own, and have it end when the test's process is killed.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
