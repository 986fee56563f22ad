package postgres

import (
	"strings"
	"syscall"
)

// tcpUserTimeout is TCP_USER_TIMEOUT: how long what was sent may stay unacknowledged. Source: linux/tcp.h.
const tcpUserTimeout = 18

// boundSilence bounds how long a connection waits until what it sent is acknowledged; keepalives do that only where
// nothing was sent.
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
