package process

import (
	"errors"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// born is when a process began, in the ticks of the system's clock since it was started.
func born(pid int) string {
	_, start := stat(pid)
	return start
}

// stat returns the state of a process, as proc(5) writes it, and when it began. Both are "" when they cannot be read.
func stat(pid int) (state, start string) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "", ""
	}
	const startTime = 22 - 3 // counted from the state, which follows the name in parentheses
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) <= startTime {
		return "", ""
	}
	return fields[0], fields[startTime]
}

// space names the PID namespace that we live in.
func space() string {
	name, _ := os.Readlink("/proc/self/ns/pid") // "" where there is no /proc
	return name
}

// runs reports whether the process that began at a time runs still. One that has ended and that nobody waits for does
// not, unless it is only its first thread that has ended.
func runs(pid int, start string) bool {
	if errors.Is(unix.Kill(pid, 0), unix.ESRCH) {
		return false
	}
	state, began := stat(pid)
	if start != "" && began != "" && began != start {
		return false
	}
	if state == "Z" || state == "X" {
		threads, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task")
		return err == nil && len(threads) > 1
	}
	return true
}
