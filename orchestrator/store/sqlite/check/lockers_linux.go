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

// Where SQLite's locks are. Source: https://sqlite.org/walformat.html, "WAL Locks", and PENDING_BYTE in os_unix.c.
const (
	walWriteLock = 120     // the byte of the -shm that who writes has locked
	pendingByte  = 1 << 30 // the first of the bytes of the database itself, which who wants it alone has locked
)

// lockers returns the numbers of the processes that hold a lock that keeps others from writing the database, as far as
// this user may see them. It opens none of the files: to close one would drop the locks that SQLite holds on them.
func lockers(path string) (pids []int) {
	locks, err := os.ReadFile("/proc/locks")
	if err != nil {
		return nil
	}
	for line := range strings.Lines(string(locks)) {
		// 1: POSIX  ADVISORY  WRITE 709 08:01:1234 120 120; who waits for a lock has an arrow before POSIX.
		fields := strings.Fields(line)
		if len(fields) != 8 || fields[1] != "POSIX" || fields[3] != "WRITE" {
			continue
		}
		pid, _ := strconv.Atoi(fields[4])
		first, _ := strconv.ParseInt(fields[6], 10, 64)
		last, err := strconv.ParseInt(fields[7], 10, 64)
		inLog := first <= walWriteLock && (err != nil || last >= walWriteLock) // err: the last is "EOF"
		inode := fields[5][strings.LastIndexByte(fields[5], ':')+1:]
		if (inLog && hasOpen(pid, path+"-shm", inode) || first >= pendingByte && hasOpen(pid, path, inode)) &&
			!slices.Contains(pids, pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// hasOpen reports whether a path names the file with the inode, and a process has that open. Numbers of inodes count
// per file system, and some file systems show another number of themselves in /proc/locks than to stat.
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

// processName is the name of the program that a process runs; "" is not known.
func processName(pid int) string {
	name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return strings.TrimSuffix(string(name), "\n")
}
