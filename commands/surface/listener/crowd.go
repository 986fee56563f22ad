package listener

import (
	"net"
	"net/http"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// crowd closes connections that come when there are too many: each is a file, and deliveries need some as well. It has the
// shape of http.Server.ConnState.
func crowd(most int64) func(net.Conn, http.ConnState) {
	var there atomic.Int64
	return func(c net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			if there.Add(1) > most {
				c.Close()
			}
		case http.StateClosed, http.StateHijacked:
			there.Add(-1)
		}
	}
}

// Share is one part in so many of the files that the process may have open, as a number of connections.
func Share(parts uint64) int64 {
	const enough = 1 << 14
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil || limit.Cur > enough {
		limit.Cur = enough
	}
	return max(8, int64(uint64(limit.Cur)/parts))
}
