package postgres

import (
	"strconv"
	"sync/atomic"
	"time"
)

// clock is the server's clock, on which all hosts agree. It is read at the beginning of each write transaction,
// after its locks are taken, after each later lock, and when a connection is opened. Between these times, the clock
// of this machine advances it. clock is safe for concurrent use.
type clock struct {
	local func() time.Time
	ahead atomic.Int64 // offset from the local clock, in nanoseconds
}

// readClock is an expression for the time of the server's clock, as input for set.
const readClock = `(extract(epoch FROM clock_timestamp()) * 1000000)::bigint`

// set sets the clock to a time that the server has just read.
func (c *clock) set(read []byte) {
	if n, err := strconv.ParseInt(string(read), 10, 64); err == nil {
		c.ahead.Store(int64(time.UnixMicro(n).Sub(c.local())))
	}
}

func (c *clock) now() time.Time { return c.local().Add(time.Duration(c.ahead.Load())) }
