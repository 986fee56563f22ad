package postgres

import (
	"strings"
	"syscall"
)

// tcpUserTimeout is TCP_USER_TIMEOUT: how long sent data may stay unacknowledged. Source: linux/tcp.h.
const tcpUserTimeout = 18

// boundSilence limits how long a connection waits for the acknowledgment of sent data. Keepalives limit the wait
// only while no data is unacknowledged.
func boundSilence(network, _ string, c syscall.RawConn) (err error) {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	if cerr := c.Control(func(fd uintptr) {
		err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(silence.Milliseconds()))
	}); cerr != nil {
		return cerr
	}
	return err
}
