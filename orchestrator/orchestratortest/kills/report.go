package kills

import (
	"fmt"
	"strings"
	"time"
)

// Report is the result of a run.
type Report struct {
	Seed     uint64
	Took     time.Duration
	Rounds   int // readers
	Kills    int // readers that were killed before they had ended
	Sent     int // messages, counted once for each agent that gets them
	Twice    int // messages that an agent was shown more than once
	Repeats  int // how often messages were shown again
	Unseen   []string
	Glimpsed int      // how many of Unseen were in an answer that was cut off after them
	Stuck    []string // shown to nobody, not marked as read, and no longer handed out
	Doors    []Door
}

// Door is the result for one door.
type Door struct {
	Name        string
	Kills, Late int           // readers that were killed, and that had ended before
	Typical     time.Duration // from the beginning to the complete answer, as measured
}

// Problems lists the errors, at most ten lines of each kind.
func (r *Report) Problems() (list []string) {
	for _, kind := range []struct {
		what string
		list []string
	}{{"marked as read and shown to nobody", r.Unseen},
		{"shown to nobody, and still with a reader that is dead", r.Stuck}} {
		for i, line := range kind.list {
			if i == 10 {
				list = append(list, fmt.Sprintf("... and %d more", len(kind.list)-i))
				break
			}
			list = append(list, line+": "+kind.what)
		}
	}
	return list
}

// String formats the report as a few lines.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d readers killed in %s (seed %d): of %d messages %d unseen (%d of them glimpsed in an answer that was cut off), %d stuck,"+
		" %d shown more than once (%d repeats)\n", r.Kills, r.Rounds, r.Took.Round(time.Second), r.Seed, r.Sent,
		len(r.Unseen), r.Glimpsed, len(r.Stuck), r.Twice, r.Repeats)
	for _, d := range r.Doors {
		fmt.Fprintf(&b, "  %-46s %6d killed, %5d ended before, an answer takes %s\n", d.Name, d.Kills, d.Late,
			d.Typical.Round(time.Millisecond))
	}
	return b.String()
}
