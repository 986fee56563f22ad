package history

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// life is the time of a process, or of a failure of the server, in ns since 1970.
type life struct {
	began, ended int64
	pid          int
}

// unsynced is how long before a failure a commit may have been made that the failure undoes, if nobody waited for it.
// PostgreSQL's manual bounds that time to three times wal_writer_delay, which is 600 ms ("Asynchronous Commit"). The
// rest is for a busy machine.
const unsynced = 2 * time.Second

// undone returns a function that reports whether a failure of the server undid the record that a process had written
// its answer with a message: the server failed while the process ran or soon after, and the trace contains that the
// message became unread again because this process had ended. The record is not synced, see docs/guarantees.md.
func (c *checker) undone() func(process, id string) bool {
	lives := map[string]life{}
	var failures []life
	for _, e := range c.Events {
		p := lives[e.Process]
		switch e.Kind {
		case Started:
			lives[e.Process] = life{began: e.At, ended: math.MaxInt64}
		case Ended:
			lives[e.Process] = life{p.began, e.At, e.PID}
		case Failing:
			failures = append(failures, life{began: e.At, ended: math.MaxInt64})
		case Repaired:
			failures[len(failures)-1].ended = e.At
		}
	}
	return func(process, id string) bool {
		p, m := lives[process], cmp.Or(c.messages[id], &message{})
		failed := slices.ContainsFunc(failures, func(f life) bool {
			return p.began <= f.ended && f.began-p.ended <= int64(unsynced)
		})
		return failed && slices.ContainsFunc(m.trace, func(t *traced) bool {
			at, err := time.Parse(layout, t.at)
			return err == nil && at.UnixNano() > p.began && t.event == "released" &&
				strings.HasSuffix(t.err, fmt.Sprintf("(process %d) %s", p.pid, unwritten))
		})
	}
}
