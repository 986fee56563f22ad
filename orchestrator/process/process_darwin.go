package process

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// born is when a process began.
func born(pid int) string {
	_, start := stat(pid)
	return start
}

// stat returns the state of a process and when it began. start is "" when they cannot be read.
func stat(pid int) (state int8, start string) {
	p, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return 0, ""
	}
	return p.Proc.P_stat, fmt.Sprintf("%d.%06d", p.Proc.P_starttime.Sec, p.Proc.P_starttime.Usec)
}

// space is nothing that this system has.
func space() string { return "" }

// zombie is the state of a process that has ended and that nobody has waited for.
const zombie = 5

// runs reports whether the process that began at a time runs still.
func runs(pid int, start string) bool {
	if errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
		return false
	}
	state, began := stat(pid)
	return state != zombie && (start == "" || began == "" || began == start)
}
