package check

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// The bytes that SQLite locks. Source: https://sqlite.org/walformat.html, "WAL Locks", and PENDING_BYTE in
// os_unix.c.
const (
	walWriteLock = 120     // the byte of the -shm that a writer locks
	pendingByte  = 1 << 30 // first of the bytes of the database that a connection locks for exclusive access
)

// lockers returns the ids of the processes that keep others from writing the database, as far as this user may see
// them. It opens none of the files, since closing one would drop the locks that SQLite holds on them.
func lockers(path string) (pids []int) {
	locks, err := os.ReadFile("/proc/locks")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(locks)) {
		// For example: "1: POSIX  ADVISORY  WRITE 709 08:01:1234 120 120". A process that waits has "->" before
		// POSIX.
		fields := strings.Fields(line)
		if len(fields) != 8 || fields[1] != "POSIX" || fields[3] != "WRITE" {
			continue
		}
		pid, _ := strconv.Atoi(fields[4])
		first, _ := strconv.ParseInt(fields[6], 10, 64)
		last, err := strconv.ParseInt(fields[7], 10, 64)
		inLog := first <= walWriteLock && (err != nil || last >= walWriteLock) // err: the last byte is "EOF"
		inode := fields[5][strings.LastIndexByte(fields[5], ':')+1:]
		if (inLog && hasOpen(pid, path+"-shm", inode) || first >= pendingByte && hasOpen(pid, path, inode)) &&
			!slices.Contains(pids, pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// hasOpen reports whether path names the file with the inode, and the process has that file open. Inode numbers are
// unique only within a file system, and some file systems have another device number in /proc/locks than in stat.
func hasOpen(pid int, path, inode string) bool {
	var file unix.Stat_t
	if unix.Stat(path, &file) != nil || strconv.FormatUint(file.Ino, 10) != inode {
		return false
	}
	open, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	return slices.ContainsFunc(open, func(fd string) bool {
		var s unix.Stat_t
		return unix.Stat(fd, &s) == nil && s.Dev == file.Dev && s.Ino == file.Ino
	})
}

// processName returns the name of the program that a process runs, or "" if it is unknown.
func processName(pid int) string {
	name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return strings.TrimSuffix(string(name), "\n")
}
