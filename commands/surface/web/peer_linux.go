package web

import "golang.org/x/sys/unix"

// peerClosed is the event of a connection whose other end has closed it.
const peerClosed = unix.POLLRDHUP
