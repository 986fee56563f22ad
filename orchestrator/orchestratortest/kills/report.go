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
	Repeats  int // the number of repeated showings
	Unseen   []string
	Glimpsed int      // of Unseen: messages in an answer that was cut off after them
	Stuck    []string // neither shown nor marked as read, but no longer handed out
	Doors    []Door
}

// Door is the result of one door.
type Door struct {
	Name        string
	Kills, Late int           // readers that were killed, and readers that had already ended
	Typical     time.Duration // measured time from the beginning to the complete answer
}

// Problems lists the violations, at most ten lines of each kind.
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

// String returns the report as a few lines.
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
