package browsertest

import "syscall"

// attributes put a child into a process group of its own, and have it end when the test's process is killed: in fact when
// the thread that started it ends, which no thread does before its process unless a goroutine was locked to it.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
