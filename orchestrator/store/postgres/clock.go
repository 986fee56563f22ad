package postgres

import (
	"strconv"
	"sync/atomic"
	"time"
)

// clock is the server's, on which all hosts agree whatever theirs say. It is read at the beginning of each write
// transaction, behind its locks, behind each that is taken later, and when a connection is opened; in between, this
// machine's goes on from there. Safe for concurrent use.
type clock struct {
	local func() time.Time
	ahead atomic.Int64 // of the local one, in nanoseconds
}

// readClock is an expression for the time by the server's clock, for set.
const readClock = `(extract(epoch FROM clock_timestamp()) * 1000000)::bigint`

// set takes over what the server has just read.
func (c *clock) set(read []byte) {
	if n, err := strconv.ParseInt(string(read), 10, 64); err == nil {
		c.ahead.Store(int64(time.UnixMicro(n).Sub(c.local())))
	}
}

func (c *clock) now() time.Time { return c.local().Add(time.Duration(c.ahead.Load())) }
