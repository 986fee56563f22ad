package process

import (
	"errors"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// exists reports whether a process with this process ID exists.
func exists(pid int) bool {
	handle, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(pid))
	if err != nil {
		return !errors.Is(err, windows.ERROR_INVALID_PARAMETER)
	}
	windows.CloseHandle(handle)
	return true
}

// SetApart makes a command run without the console of this process, so that Ctrl-C there does not reach it.
func SetApart(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP | windows.DETACHED_PROCESS}
}

// lineage returns the parent of a process, or 0 if the process has ended, and the name of its program without .exe.
func lineage(pid int) (parent int, words []string) {
	all, err := windows.CreateToolhelp32Snapshot(windows.TH32CS_SNAPPROCESS, 0)
	if err != nil {
		return 0, nil
	}
	defer windows.CloseHandle(all)
	entry := windows.ProcessEntry32{Size: uint32(unsafe.Sizeof(windows.ProcessEntry32{}))}
	for err = windows.Process32First(all, &entry); err == nil; err = windows.Process32Next(all, &entry) {
		if entry.ProcessID == uint32(pid) {
			name := windows.UTF16ToString(entry.ExeFile[:])
			return int(entry.ParentProcessID), []string{strings.TrimSuffix(strings.ToLower(name), ".exe")}
		}
	}
	return 0, nil
}

// Words returns the name of the program of a process. Windows reveals no more of the command line.
func Words(pid int) []string {
	_, words := lineage(pid)
	return words
}

// look reports whether a process has ended although its process ID is still in use. born is the time when it began,
// or "" if unknown.
func look(pid int) (ended bool, born string) {
	handle, err := windows.OpenProcess(windows.PROCESS_QUERY_LIMITED_INFORMATION, false, uint32(pid))
	if err != nil {
		return false, ""
	}
	defer windows.CloseHandle(handle)
	const stillActive = 259
	var status uint32
	ended = windows.GetExitCodeProcess(handle, &status) == nil && status != stillActive
	var began, exited, kernel, user windows.Filetime
	if windows.GetProcessTimes(handle, &began, &exited, &kernel, &user) != nil {
		return ended, ""
	}
	return ended, strconv.FormatInt(began.Nanoseconds(), 10)
}
