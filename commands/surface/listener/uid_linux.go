package listener

import (
	"net"

	"golang.org/x/sys/unix"
)

// uidOf returns the user ID of the peer, according to the kernel.
func uidOf(c *net.UnixConn) (uid int, known bool) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, false
	}
	err = raw.Control(func(fd uintptr) {
		if peer, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			uid, known = int(peer.Uid), true
		}
	})
	return uid, known && err == nil
}
