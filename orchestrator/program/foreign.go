package program

import "golang.org/x/sys/unix"

// EndGroup asks the group of a command that another process started to end, with SIGTERM, or ends it with SIGKILL. The
// caller knows that pid is still the command's, see Holder.
func EndGroup(pid int, kill bool) {
	signal := unix.SIGTERM
	if kill {
		signal = unix.SIGKILL
	}
	_ = unix.Kill(-pid, signal) // an error means that it has ended
	_ = unix.Kill(-pid, unix.SIGCONT)
}
