package daemon

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/cost"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/overview"
)

// stateAge is the maximum age of the state that a scrape reports, and stateWithin how long the scrape waits for the
// state.
const (
	stateAge    = time.Second
	stateWithin = 5 * time.Second
)

// metrics are the Prometheus metrics of a daemon: gauges read from the database at each scrape, and counts of the
// daemon's own work.
type metrics struct {
	version string
	began   time.Time
	ledger  *ledger.Ledger
	seen    *glance[sight]

	mu   sync.Mutex
	runs map[string]*scheduledRuns // by command
}

// scheduledRuns counts the scheduled runs of a command.
type scheduledRuns struct {
	outcomes map[string]int64 // by "ok" or the error code
	took     time.Duration    // total duration
}

// sight is the result of one query of the database.
type sight struct {
	state    overview.State
	attempts overview.Attempts // since this daemon began
	context  []cost.Now
}

func newMetrics(l *ledger.Ledger, version string, log *slog.Logger) *metrics {
	return &metrics{
		version: version, began: time.Now(), ledger: l, runs: map[string]*scheduledRuns{},
		seen: &glance[sight]{log: log, look: looker(l), keep: stateAge, within: stateWithin},
	}
}

// handler returns the handler for scrapes.
func (m *metrics) handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		m.write(w)
	})
}

// looker returns a function that reads the state of the database and counts the delivery attempts since looker was
// called. The function must not be called concurrently.
func looker(l *ledger.Ledger) func(context.Context) (sight, error) {
	total := overview.Attempts{Last: -1} // if the trace cannot be read now, the count begins at the first query
	if begin, err := overview.AttemptsAfter(context.Background(), l, -1); err == nil {
		total.Last = begin.Last
	}
	return func(ctx context.Context) (sight, error) {
		state, err := overview.Status(ctx, l)
		if err != nil {
			return sight{}, err
		}
		more, err := overview.AttemptsAfter(ctx, l, total.Last)
		if err != nil {
			return sight{}, err
		}
		total.Delivered += more.Delivered
		total.Failed += more.Failed
		total.GivenUp += more.GivenUp
		total.Last = more.Last
		context, err := cost.ThisHour(ctx, l)
		return sight{state, total, context}, err
	}
}

// ran counts one scheduled run, with its outcome and duration.
func (m *metrics) ran(command string, took time.Duration, err error) {
	outcome := "ok"
	if err != nil {
		outcome = string(orchestrator.CodeOf(err))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	runs := m.runs[command]
	if runs == nil {
		runs = &scheduledRuns{outcomes: map[string]int64{}}
		m.runs[command] = runs
	}
	runs.outcomes[outcome]++
	runs.took += took
}

// writeRuns writes the metrics of scheduled runs.
func (m *metrics) writeRuns(w io.Writer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	runs := family(w, "mailroom_scheduled_runs_total", "counter", "Scheduled runs of this daemon, by outcome.")
	for command, r := range m.runs {
		for outcome, n := range r.outcomes {
			runs.value(float64(n), "command", command, "outcome", outcome)
		}
	}
	took := family(w, "mailroom_scheduled_run_seconds", "summary", "Duration of scheduled runs, in seconds.")
	sum, count := familyWriter{w, took.name + "_sum"}, familyWriter{w, took.name + "_count"}
	for command, r := range m.runs {
		total := int64(0)
		for _, n := range r.outcomes {
			total += n
		}
		sum.value(r.took.Seconds(), "command", command)
		count.value(float64(total), "command", command)
	}
}

// writeProcess writes the resource usage of this process, under the names of Prometheus' own client libraries. Those
// libraries, and package runtime/metrics, would slow down the start of every command.
func (m *metrics) writeProcess(w io.Writer) {
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	family(w, "go_goroutines", "gauge", "Number of goroutines.").value(float64(runtime.NumGoroutine()))
	family(w, "go_memstats_heap_inuse_bytes", "gauge", "Bytes of heap memory in use.").value(float64(memory.HeapInuse))
	family(w, "go_memstats_sys_bytes", "gauge", "Bytes of memory that Go obtained from the operating system.").value(float64(memory.Sys))
	family(w, "go_gc_cycles_total", "counter", "Completed garbage collections.").value(float64(memory.NumGC))
	family(w, "process_start_time_seconds", "gauge",
		"Start time of the daemon, in seconds since 1970.").value(float64(m.began.UnixMilli()) / 1000)
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) == nil {
		family(w, "process_cpu_seconds_total", "counter",
			"CPU time used, in seconds.").value(time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds())
	}
	if text, err := os.ReadFile("/proc/self/statm"); err == nil { // on Linux
		if fields := strings.Fields(string(text)); len(fields) > 1 {
			if pages, err := strconv.Atoi(fields[1]); err == nil {
				family(w, "process_resident_memory_bytes", "gauge",
					"Resident memory, in bytes.").value(float64(pages * os.Getpagesize()))
			}
		}
	}
}

// write writes all metrics in Prometheus' text format.
func (m *metrics) write(w io.Writer) {
	family(w, "mailroom_build_info", "gauge", "Always 1.").value(1, "version", m.version)
	m.writeRuns(w)
	m.writeProcess(w)
	up := family(w, "mailroom_database_up", "gauge", "1 if the database could be read for this scrape, otherwise 0.")
	seen, err := m.seen.get(context.Background())
	if err != nil {
		up.value(0)
		return
	}
	up.value(1)
	attempts := family(w, "mailroom_delivery_attempts_total", "counter",
		"Delivery attempts of this daemon, by outcome.")
	attempts.value(float64(seen.attempts.Delivered), "outcome", "delivered")
	attempts.value(float64(seen.attempts.Failed), "outcome", "failed")
	family(w, "mailroom_given_up_total", "counter",
		"Messages that this daemon stopped trying to deliver (dead letters).").value(float64(seen.attempts.GivenUp))
	messages := family(w, "mailroom_messages", "gauge",
		"Rows of agent_message by status, and archived rows. Statuses that Mailroom does not define are counted as (other).")
	for status, n := range foldStatuses(seen.state.Totals) {
		messages.value(float64(n), "status", status)
	}
	m.writeBacklog(w, seen.state.Recipients)
	family(w, "mailroom_unread", "gauge", "Unread messages in inboxes.").value(float64(seen.state.Unread))
	context := family(w, "mailroom_context_bytes", "gauge",
		"Bytes that messages added to the contexts of models in the current clock hour, by agent and way (hook, urgent, digest, or tool).")
	for _, of := range seen.context {
		context.value(float64(of.Bytes), "agent", of.Agent, "way", string(of.Way))
	}
	family(w, "mailroom_overdue", "gauge",
		"Undelivered messages that have waited longer than the setting overdue.after.").value(float64(seen.state.Overdue))
	bytes := family(w, "mailroom_database_bytes", "gauge", "Size of the database and of its write-ahead log, in bytes.")
	bytes.value(float64(seen.state.Bytes), "file", "database")
	bytes.value(float64(seen.state.WALBytes), "file", "wal")
	family(w, "mailroom_daemons", "gauge", "Daemons that use this database.").value(float64(len(seen.state.Daemons)))
}

// writeBacklog writes the number of undelivered messages. Only agents have labels of their own: anybody may write any
// recipient into the table, and Prometheus keeps each label for as long as its data.
func (m *metrics) writeBacklog(w io.Writer, recipients []overview.RecipientBacklog) {
	backlog := family(w, "mailroom_backlog", "gauge",
		"Undelivered messages by recipient and status (pending or retry). Unknown recipients are counted as (unknown).")
	var unknown overview.RecipientBacklog
	oldest := time.Duration(0)
	for _, b := range recipients {
		if at, err := time.Parse(time.RFC3339, b.OldestAt); err == nil {
			oldest = max(oldest, m.ledger.Now().Sub(at))
		}
		if !b.Known {
			unknown.Pending += b.Pending
			unknown.Retry += b.Retry
			continue
		}
		backlog.value(float64(b.Pending), "recipient", b.Recipient, "status", "pending")
		backlog.value(float64(b.Retry), "recipient", b.Recipient, "status", "retry")
	}
	backlog.value(float64(unknown.Pending), "recipient", "(unknown)", "status", "pending")
	backlog.value(float64(unknown.Retry), "recipient", "(unknown)", "status", "retry")
	family(w, "mailroom_oldest_undelivered_seconds", "gauge",
		"Age of the oldest undelivered message, in seconds.").value(oldest.Seconds())
}

// familyWriter writes the values of one metric.
type familyWriter struct {
	w    io.Writer
	name string
}

// family writes the header of a metric.
func family(w io.Writer, name, kind, help string) familyWriter {
	fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
	return familyWriter{w, name}
}

// value writes one value. labels alternates names and values.
func (f familyWriter) value(v float64, labels ...string) {
	fmt.Fprint(f.w, f.name)
	for i := 0; i < len(labels); i += 2 {
		opening := ","
		if i == 0 {
			opening = "{"
		}
		fmt.Fprintf(f.w, "%s%s=%q", opening, labels[i], labels[i+1])
	}
	if len(labels) > 0 {
		fmt.Fprint(f.w, "}")
	}
	fmt.Fprintf(f.w, " %v\n", v)
}

// foldStatuses counts all statuses that Mailroom does not define as "(other)", since anybody may write any status
// into the table, and Prometheus keeps each label permanently.
func foldStatuses(totals map[string]int64) map[string]int64 {
	folded := map[string]int64{"(other)": 0}
	for status, n := range totals {
		switch orchestrator.Status(status) {
		case orchestrator.Pending, orchestrator.Retry, orchestrator.Delivered, orchestrator.Failed, orchestrator.Expired,
			orchestrator.Cancelled, "archived":
		default:
			status = "(other)"
		}
		folded[status] += n
	}
	return folded
}
