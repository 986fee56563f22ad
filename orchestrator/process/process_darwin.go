package process

import (
	"encoding/binary"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// zombie is the state of a process that has ended and whose parent has not yet waited for it.
const zombie = 5

// lineage returns the parent of a process, and the name of its program. It returns 0 if the process has ended.
func lineage(pid int) (parent int, words []string) {
	p, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return 0, nil
	}
	return int(p.Eproc.Ppid), []string{unix.ByteSliceToString(p.Proc.P_comm[:])}
}

// Words returns the command line of a process, as far as the system reports it.
func Words(pid int) []string {
	raw, err := unix.SysctlRaw("kern.procargs2", pid)
	if err != nil || len(raw) < 4 {
		return nil
	}
	n := int(binary.NativeEndian.Uint32(raw)) // the path of the program, zeros, and the words follow
	_, rest, _ := strings.Cut(string(raw[4:]), "\x00")
	words := strings.Split(strings.TrimLeft(rest, "\x00"), "\x00")
	return words[:min(max(n, 0), len(words))]
}

// look reports whether a process has ended and only waits for its parent to collect it. It also returns when the
// process began, or "" if that is unknown.
func look(pid int) (ended bool, born string) {
	p, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return false, ""
	}
	return p.Proc.P_stat == zombie, fmt.Sprintf("%d.%06d", p.Proc.P_starttime.Sec, p.Proc.P_starttime.Usec)
}
