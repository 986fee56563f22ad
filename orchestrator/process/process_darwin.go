package process

import (
	"encoding/binary"
	"fmt"
	"strings"

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

// Words returns the command line of a process, as far as this system tells it.
func Words(pid int) []string {
	raw, err := unix.SysctlRaw("kern.procargs2", pid)
	if err != nil || len(raw) < 4 {
		return nil
	}
	n := int(binary.NativeEndian.Uint32(raw)) // then the path of the program, zeros, and the words
	_, rest, _ := strings.Cut(string(raw[4:]), "\x00")
	words := strings.Split(strings.TrimLeft(rest, "\x00"), "\x00")
	return words[:min(max(n, 0), len(words))]
}

// look reports whether a process has ended and only waits for its parent to notice, and when it began, as far as can be
// told.
func look(pid int) (ended bool, born string) {
	p, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return false, ""
	}
	return p.Proc.P_stat == zombie, fmt.Sprintf("%d.%06d", p.Proc.P_starttime.Sec, p.Proc.P_starttime.Usec)
}
