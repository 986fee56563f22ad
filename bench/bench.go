// Command bench compares Mailroom with its peers, as ratios within one run. `make bench` runs all cases and writes
// docs/benchmarks.md and the raw numbers. Bench is a module of its own, so that no peer becomes a dependency of the
// product.
package main

// Case is one measurement that several contestants perform in one run.
type Case struct {
	Name        string // as on the command line: sends-8
	Title       string // as in the table: durable sends, 8 senders in a process
	About       string // what one run does, in two or three sentences, for the report
	Missed      string // why a target is missed, as far as known; shown only if one is
	Contestants []Contestant
	Targets     []Target
}

// Contestant is one design in a case. Run is called in a separate process, with an empty folder on a real disk, and
// need not remove anything. The contestants of a case take turns, round by round, in an order that rotates.
type Contestant struct {
	Name string // mailroom, plain-full, jetstream-always, ...
	Run  func(*Run) Measures
}

// Measures are the figures of one run by name. Each name includes the unit: rate_per_s, worst_ms, median_us,
// cpu_ms_per_s, peak_kib, wal_mib, busy_errors.
type Measures map[string]float64

// Target is a figure to reach: a measure of Mailroom, divided by the same measure of another contestant, round by
// round. Without Against, the measure itself is compared.
type Target struct {
	Measure string
	Against string  // contestant; "" compares the measure itself
	Want    float64 // the ratio, or the bound
	AtMost  bool    // at most Want; otherwise at least
}
