package browsertest

import "syscall"

// attributes puts a child into its own process group and makes it end when the test's process is killed. The signal
// is in fact sent when the thread that started the child ends; threads end before their process only if a goroutine
// was locked to them.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
