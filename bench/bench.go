// Command bench measures Mailroom and similar systems, and reports ratios within one run. `make bench` runs all cases
// and writes docs/benchmarks.md and the raw numbers. The command has a module of its own, so that the product does
// not depend on any of the other systems.
package main

// Case measures several contestants in one run, to answer one question.
type Case struct {
	Name        string // as on the command line, for example sends-8
	Title       string // as in the table, for example "durable sends, 8 senders in a process"
	About       string // what one run does, in two or three sentences, for the report
	Missed      string // the known reasons why a target is missed; the report shows them only if one is missed
	Contestants []Contestant
	Targets     []Target
}

// Contestant is one design in a case. The driver calls Run in a new process, with an empty folder on a real disk. Run
// need not remove anything. The contestants of a case take turns, round by round, in an order that rotates.
type Contestant struct {
	Name string // mailroom, plain-full, jetstream-always, ...
	Run  func(*Run) Measures
}

// Measures holds the figures of one run by name. Each name contains the unit: rate_per_s, worst_ms, median_us,
// cpu_ms_per_s, peak_kib, wal_mib, busy_errors.
type Measures map[string]float64

// Target is a figure to reach: a measure of Mailroom divided by the same measure of another contestant, round by
// round. If Against is empty, Target compares the measure without dividing it.
type Target struct {
	Measure string
	Against string  // a contestant, or "" to compare the measure without dividing it
	Want    float64 // the ratio, or the limit of the measure
	AtMost  bool    // the figure must be at most Want; otherwise, at least Want
}
