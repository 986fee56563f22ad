//go:build unix

package web

import "golang.org/x/sys/unix"

// isClosed reports whether the other end of a connection is known to be closed.
func isClosed(fd uintptr) bool {
	state := []unix.PollFd{{Fd: int32(fd), Events: peerClosed}}
	n, err := unix.Poll(state, 0)
	return err == nil && n > 0 && state[0].Revents&(peerClosed|unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0
}
