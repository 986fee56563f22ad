package process

import (
	"os"
	"strconv"
	"strings"
)

// lineage returns the parent of a process, or 0 if the process has ended, and the words of its command line.
func lineage(pid int) (parent int, words []string) {
	folder := "/proc/" + strconv.Itoa(pid)
	text, err := os.ReadFile(folder + "/stat")
	if err != nil {
		return 0, nil
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) > 1 {
		parent, _ = strconv.Atoi(fields[1])
	}
	return parent, Words(pid)
}

// Words returns the command line of a process, as far as the system reveals it.
func Words(pid int) []string {
	line, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	return strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")
}

// look reports whether a process has ended without its parent having waited for it. born is the time when it began,
// in ticks since the system was started, or "" if unknown. See proc(5).
func look(pid int) (ended bool, born string) {
	folder := "/proc/" + strconv.Itoa(pid)
	text, err := os.ReadFile(folder + "/stat")
	if err != nil {
		return false, ""
	}
	const startTime = 22 - 3 // counted from the state, which follows the name in parentheses
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) <= startTime {
		return false, ""
	}
	if state := fields[0]; state == "Z" || state == "X" { // unless only its first thread has ended
		threads, err := os.ReadDir(folder + "/task")
		ended = err != nil || len(threads) <= 1
	}
	return ended, fields[startTime]
}
