package process

import (
	"encoding/binary"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// zombie is the state of a process that has ended and whose parent has not waited for it.
const zombie = 5

// lineage returns the parent of a process, or 0 if the process has ended, and the name of its program.
func lineage(pid int) (parent int, words []string) {
	p, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return 0, nil
	}
	return int(p.Eproc.Ppid), []string{unix.ByteSliceToString(p.Proc.P_comm[:])}
}

// Words returns the command line of a process, or nil if this system does not reveal it.
func Words(pid int) []string {
	raw, err := unix.SysctlRaw("kern.procargs2", pid)
	if err != nil || len(raw) < 4 {
		return nil
	}
	n := int(binary.NativeEndian.Uint32(raw)) // followed by the path of the program, zeros, and the words
	_, rest, _ := strings.Cut(string(raw[4:]), "\x00")
	words := strings.Split(strings.TrimLeft(rest, "\x00"), "\x00")
	return words[:min(max(n, 0), len(words))]
}

// look reports whether a process has ended without its parent having waited for it. born is the time when it began,
// or "" if unknown.
func look(pid int) (ended bool, born string) {
	p, err := unix.SysctlKinfoProc("kern.proc.pid", pid)
	if err != nil {
		return false, ""
	}
	return p.Proc.P_stat == zombie, fmt.Sprintf("%d.%06d", p.Proc.P_starttime.Sec, p.Proc.P_starttime.Usec)
}
