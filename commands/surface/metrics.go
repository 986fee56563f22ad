package surface

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"mailroom/orchestrator"
)

// stateAge is how old the state may be that a scrape reports, and stateWithin how long the scrape waits for it.
const (
	stateAge    = time.Second
	stateWithin = 5 * time.Second
)

// metrics are what a daemon tells Prometheus: gauges read from the database at the time of a scrape, and counts of what
// this daemon did.
type metrics struct {
	registry *prometheus.Registry
	router   *orchestrator.Router
	runs     *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	state    *glance[orchestrator.State]
}

var (
	messagesDesc = prometheus.NewDesc("mailroom_messages", "Rows of agent_message by status, and those that are archived; a status that is none of ours counts as (other).", []string{"status"}, nil)
	backlogDesc  = prometheus.NewDesc("mailroom_backlog", "Undelivered messages by recipient and status, pending or retry; names that nobody has are counted as (unknown).", []string{"recipient", "status"}, nil)
	oldestDesc   = prometheus.NewDesc("mailroom_oldest_undelivered_seconds", "Age of the oldest undelivered message.", nil, nil)
	unreadDesc   = prometheus.NewDesc("mailroom_unread", "Messages that stand unread in inboxes.", nil, nil)
	overdueDesc  = prometheus.NewDesc("mailroom_overdue", "Undelivered messages that wait for longer than the setting overdue.after.", nil, nil)
	bytesDesc    = prometheus.NewDesc("mailroom_database_bytes", "Size of the database and of its write-ahead log.", []string{"file"}, nil)
	daemonsDesc  = prometheus.NewDesc("mailroom_daemons", "Daemons on this database.", nil, nil)
	attemptsDesc = prometheus.NewDesc("mailroom_delivery_attempts_total", "Attempts of this daemon to deliver a message, by what came of them.", []string{"outcome"}, nil)
	givenUpDesc  = prometheus.NewDesc("mailroom_given_up_total", "Messages that failed for good at an attempt of this daemon.", nil, nil)
	upDesc       = prometheus.NewDesc("mailroom_database_up", "1 when the database could be read for this scrape.", nil, nil)
)

func newMetrics(router *orchestrator.Router, version string, log *slog.Logger) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(), router: router,
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mailroom_scheduled_runs_total", Help: "Scheduled runs that this daemon made.",
		}, []string{"command", "outcome"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "mailroom_scheduled_run_seconds", Help: "How long scheduled runs took.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 4, 10),
		}, []string{"command"}),
		state: &glance[orchestrator.State]{name: "state", log: log, look: router.Status, keep: stateAge, within: stateWithin},
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "mailroom_build_info", Help: "Always 1.", ConstLabels: prometheus.Labels{"version": version},
	})
	build.Set(1)
	m.registry.MustRegister(m, m.runs, m.seconds, build, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// ran counts one scheduled run.
func (m *metrics) ran(command string, took time.Duration, err error) {
	outcome := "ok"
	if err != nil {
		outcome = string(orchestrator.CodeOf(err))
	}
	m.runs.WithLabelValues(command, outcome).Inc()
	m.seconds.WithLabelValues(command).Observe(took.Seconds())
}

// Describe implements prometheus.Collector.
func (m *metrics) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{messagesDesc, backlogDesc, oldestDesc, unreadDesc, overdueDesc, bytesDesc, daemonsDesc, attemptsDesc, givenUpDesc, upDesc} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(out chan<- prometheus.Metric) {
	made := m.router.Attempts()
	count := func(d *prometheus.Desc, n int64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	count(attemptsDesc, made.Delivered, "delivered")
	count(attemptsDesc, made.Failed, "failed")
	count(attemptsDesc, made.TimedOut, "timed_out")
	count(givenUpDesc, made.GivenUp)
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	state, err := m.state.get(context.Background())
	if err != nil {
		gauge(upDesc, 0)
		return
	}
	gauge(upDesc, 1)
	for status, n := range foldStatuses(state.Totals) {
		gauge(messagesDesc, float64(n), status)
	}
	m.collectBacklog(gauge, state.Recipients)
	gauge(unreadDesc, float64(state.Unread))
	gauge(overdueDesc, float64(state.Overdue))
	gauge(bytesDesc, float64(state.Bytes), "database")
	gauge(bytesDesc, float64(state.WALBytes), "wal")
	gauge(daemonsDesc, float64(len(state.Daemons)))
}

// collectBacklog reports what waits. Only agents have a label of their own: anybody may write any recipient into the
// table, and each label is kept for as long as Prometheus keeps anything.
func (m *metrics) collectBacklog(gauge func(*prometheus.Desc, float64, ...string), recipients []orchestrator.RecipientBacklog) {
	var unknown orchestrator.RecipientBacklog
	oldest := time.Duration(0)
	for _, b := range recipients {
		if at, err := time.Parse(time.RFC3339, b.OldestAt); err == nil {
			oldest = max(oldest, m.router.Now().Sub(at))
		}
		if !b.Known {
			unknown.Pending += b.Pending
			unknown.Retry += b.Retry
			continue
		}
		gauge(backlogDesc, float64(b.Pending), b.Recipient, "pending")
		gauge(backlogDesc, float64(b.Retry), b.Recipient, "retry")
	}
	gauge(backlogDesc, float64(unknown.Pending), "(unknown)", "pending")
	gauge(backlogDesc, float64(unknown.Retry), "(unknown)", "retry")
	gauge(oldestDesc, oldest.Seconds())
}

// foldStatuses keeps the statuses that mean something. Whatever else others wrote into the table, be it no text at all,
// is no label.
func foldStatuses(totals map[string]int64) map[string]int64 {
	folded := map[string]int64{"(other)": 0}
	for status, n := range totals {
		switch orchestrator.Status(status) {
		case orchestrator.Pending, orchestrator.Retry, orchestrator.Delivered, orchestrator.Failed, orchestrator.Lapsed,
			orchestrator.Cancelled, "archived":
		default:
			status = "(other)"
		}
		folded[status] += n
	}
	return folded
}
