package process

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// zombie is the state of a process that has ended and that nobody has waited for.
const zombie = 5

// lineage returns the parent of a process, and the name of its program; 0 if it has ended.
func lineage(pid int) (parent int, words []string) {
	p, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return 0, nil
	}
	return int(p.Eproc.Ppid), []string{unix.ByteSliceToString(p.Proc.P_comm[:])}
}

// look reports whether a process has ended and only waits for its parent to notice, and when it began, as far as can be told.
func look(pid int) (ended bool, born string) {
	p, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return false, ""
	}
	return p.Proc.P_stat == zombie, fmt.Sprintf("%d.%06d", p.Proc.P_starttime.Sec, p.Proc.P_starttime.Usec)
}
