package web

import "golang.org/x/sys/unix"

// peerClosed is the poll event for a connection that the other end has closed.
const peerClosed = unix.POLLRDHUP
