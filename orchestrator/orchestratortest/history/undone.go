package history

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// unsynced is the age up to which a failure can undo a commit that nobody waited for. PostgreSQL's manual names three
// times wal_writer_delay, which is 600 ms ("Asynchronous Commit"). The rest is for a busy machine and a paused process.
const unsynced = 2 * time.Second

// undone returns a function that reports whether a failure of the server undid the record that a process had handed
// out a message (reading.Written, which is not synced): the server failed near the end of the process, and according
// to the trace, the message became unread again because this process had ended.
func (c *checker) undone() func(process, id string) bool {
	type failure struct{ began, ended int64 }
	var failures []failure
	ends := map[string]Event{}
	for _, e := range c.Events {
		switch e.Kind {
		case Ended:
			ends[e.Process] = e
		case Failing:
			failures = append(failures, failure{e.At, math.MaxInt64})
		case Repaired:
			failures[len(failures)-1].ended = e.At
		}
	}
	return func(process, id string) bool {
		end, m := ends[process], c.messages[id]
		failed := slices.ContainsFunc(failures, func(f failure) bool {
			return f.began-end.At <= int64(unsynced) && end.At-f.ended <= int64(unsynced)
		})
		return failed && m != nil && slices.ContainsFunc(m.trace, func(t *traced) bool {
			at, err := time.Parse(layout, t.at)
			return err == nil && end.At-at.UnixNano() <= int64(unsynced) && t.event == "released" &&
				strings.HasSuffix(t.err, fmt.Sprintf("(process %d) %s", end.PID, unwritten))
		})
	}
}
