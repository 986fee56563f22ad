package history

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Violation is a guarantee that was violated.
type Violation struct {
	Check string // a name in Checks
	Text  string // a description with the row
}

func (v Violation) String() string { return v.Check + ": " + v.Text }

// shown is the maximum number of violations of one check that are listed. Further violations are only counted.
const shown = 20

// Result holds the violations that Check found, and how much it checked.
type Result struct {
	Violations  []Violation
	Counts      map[string]int // the number of items that each check checked
	Messages    int            // all messages that ever existed
	Deliveries  map[string]int // by transport
	Runs        map[string]int // commands and requests, by transport
	PutOff      int            // attempts that the recipient postponed
	Refused     int            // messages that the recipient refused permanently
	DeadLetters int            // messages that failed or expired
	Crashed     int            // leases that expired
	Found       int            // deliveries of an attempt that did not report its result
	Late        int            // results that came after the lease was lost
	Climbed     int            // attempts that failed
	Traced      int            // rows of message_trace
	Torn        int            // incomplete lines in files
	Undone      int            // messages that became unread again because the failing server undid a record
}

// Checks lists the names of the checks, in their order, and their meanings.
var Checks = []struct{ Name, About string }{
	{"exits", "Every process that was not killed succeeded. The database refused no process."},
	{"sends", "Every acknowledged send exists exactly once, as it was sent. No message exists that nobody sent."},
	{"send order", "If one send was acknowledged before another send began, the message of the first send precedes the other."},
	{"trace", "The trace has no gap, its times never go backward, and each event begins in the status in which the previous event ended."},
	{"state", "A replay of the trace ends in the state of the table. The trace contains every change with the time at which it was made."},
	{"leases", "No two active leases of the same row, or of the same sender and recipient, overlapped."},
	{"ladder", "Every next attempt was due exactly after the delay in the retry schedule, and came no earlier. A message failed only after its last attempt."},
	{"arrivals", "Every delivered message is exactly once in its inbox, file, or folder, and is complete. The inbox, file, or folder contains nothing else."},
	{"runs", "A command or request was repeated only after an attempt that crashed, stalled, or failed, and under the same ID." +
		" Only one command ran at a time. Each answer agrees with the trace, unless that attempt was lost."},
	{"arrival order", "Messages with the same sender, recipient, and priority arrived in order. Only a message with a failed attempt came later."},
	{"reports", "Every dead letter caused one `error_report`."},
	{"readings", "Each message went to one reader, or to a second reader after the first one died. A reader received every message that is marked as read."},
	{"integrity", "`PRAGMA integrity_check` found no error."},
}

// checker collects violations.
type checker struct {
	*facts
	result Result
	told   map[string]int
}

func (c *checker) violated(check, format string, args ...any) {
	if c.told[check]++; c.told[check] <= shown {
		c.result.Violations = append(c.result.Violations, Violation{check, fmt.Sprintf(format, args...)})
	}
}

func (c *checker) counted(check string, n int) { c.result.Counts[check] += n }

// Check checks the evidence. It returns an error only if the evidence cannot be read.
func Check(ctx context.Context, e Evidence) (Result, error) {
	f, err := load(ctx, e)
	if err != nil {
		return Result{}, err
	}
	c := &checker{facts: f, told: map[string]int{}}
	c.result = Result{Counts: map[string]int{}, Deliveries: map[string]int{}, Runs: map[string]int{},
		Messages: len(f.ids), Traced: len(f.trace), Torn: f.torn}
	c.exits()
	c.replay() // first, because the other checks use the final states
	c.sends()
	c.leases()
	c.ladder()
	c.arrived()
	c.runs()
	c.arrivedInOrder()
	c.reports()
	c.readings()
	c.integrity()
	for check, n := range c.told {
		if n > shown {
			c.result.Violations = append(c.result.Violations, Violation{check, fmt.Sprintf("... and %d more", n-shown)})
		}
	}
	slices.SortStableFunc(c.result.Violations,
		func(a, b Violation) int { return placeOfCheck(a.Check) - placeOfCheck(b.Check) })
	return c.result, nil
}

func placeOfCheck(name string) int {
	for i, check := range Checks {
		if check.Name == name {
			return i
		}
	}
	return len(Checks)
}

func (c *checker) exits() {
	for _, e := range c.Events {
		switch e.Kind {
		case Fault:
			c.violated("exits", "%s: %s", e.Process, e.Text)
		case Started:
			c.counted("exits", 1)
		}
	}
}

func (c *checker) integrity() {
	c.counted("integrity", 1)
	if len(c.sound) != 1 || c.sound[0] != "ok" {
		c.violated("integrity", "%s", strings.Join(c.sound, "; "))
	}
}

// reports checks that the engine reports each dead letter to its sender once, and reports nothing else.
func (c *checker) reports() {
	reports := map[string]int{}
	for _, id := range c.ids {
		if m := c.messages[id]; m.sender == system {
			reports[m.replyTo]++
		}
	}
	for _, id := range c.ids {
		m := c.messages[id]
		dead := 0
		for _, t := range m.trace {
			if t.event == "failed" || t.event == "expired" {
				dead++
			}
		}
		c.result.DeadLetters += dead
		if m.sender == system || !m.known {
			continue
		}
		c.counted("reports", dead)
		if reports[id] != dead {
			c.violated("reports", "%s died %d times, and its sender %s got %d reports", id, dead, m.sender, reports[id])
		}
	}
}

// system is the sender name of the engine itself.
const system = "system"

// readings compares the messages that readers got with the read events in the trace. A message that a killed reader
// got may still be unread, and another reader then gets it. The same holds if the failing server undid the record that
// the answer was written.
func (c *checker) readings() {
	killed := c.killed()
	undone := c.undone()
	type reading struct{ process, id string }
	handed := map[reading]int{}
	times := map[string]int{}
	for _, e := range c.Events {
		for _, id := range e.IDs {
			handed[reading{e.Process, id}]++
			times[id]++
			c.counted("readings", 1)
		}
	}
	read := map[reading]int{}
	for _, id := range c.ids {
		m := c.messages[id]
		again := 1
		for _, t := range m.trace {
			switch {
			case t.event == "read":
				r := reading{t.actor, id}
				read[r]++
				if handed[r] == 0 {
					c.violated("readings",
						"%s was marked as read by %s (message_trace row %d), which was never handed it", id, t.actor,
						t.id)
				}
			case t.event == "replayed", t.event == "released" &&
				(strings.HasPrefix(t.err, unread) || strings.HasPrefix(t.err, handedBack) ||
					strings.HasSuffix(t.err, unwritten)):
				again++
			}
		}
		if times[id] > again {
			c.violated("readings", "%s was handed out %d times", id, times[id])
		}
	}
	for r, n := range handed {
		switch {
		case read[r] >= n || killed[r.process]:
		case undone(r.process, r.id):
			c.result.Undone++
		default:
			c.violated("readings", "%s was handed to %s and never marked as read", r.id, r.process)
		}
	}
}

// killed returns the processes that were killed.
func (c *checker) killed() map[string]bool {
	killed := map[string]bool{}
	for _, e := range c.Events {
		if e.Kind == Killed {
			killed[e.Process] = true
		}
	}
	return killed
}
