package surface

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"mailroom/orchestrator"
)

// stateAge is how old the state may be that a scrape reports.
const stateAge = time.Second

// metrics are what a daemon tells Prometheus: gauges read from the database at the time of a scrape, and counts of what
// this daemon did.
type metrics struct {
	registry *prometheus.Registry
	router   *orchestrator.Router
	runs     *prometheus.CounterVec
	seconds  *prometheus.HistogramVec

	mu   sync.Mutex
	at   time.Time
	last orchestrator.State
}

var (
	messagesDesc = prometheus.NewDesc("mailroom_messages", "Rows of agent_message by status; archived ones too.", []string{"status"}, nil)
	backlogDesc  = prometheus.NewDesc("mailroom_backlog", "Undelivered messages by recipient; names that nobody has are counted as (unknown).", []string{"recipient"}, nil)
	oldestDesc   = prometheus.NewDesc("mailroom_oldest_undelivered_seconds", "Age of the oldest undelivered message.", nil, nil)
	unreadDesc   = prometheus.NewDesc("mailroom_unread", "Messages that stand unread in inboxes.", nil, nil)
	overdueDesc  = prometheus.NewDesc("mailroom_overdue", "Undelivered messages that wait for longer than the setting overdue.after.", nil, nil)
	bytesDesc    = prometheus.NewDesc("mailroom_database_bytes", "Size of the database and of its write-ahead log.", []string{"file"}, nil)
	daemonsDesc  = prometheus.NewDesc("mailroom_daemons", "Daemons on this database.", nil, nil)
	upDesc       = prometheus.NewDesc("mailroom_database_up", "1 when the database could be read for this scrape.", nil, nil)
)

func newMetrics(router *orchestrator.Router, version string) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(), router: router,
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "mailroom_scheduled_runs_total", Help: "Scheduled runs that this daemon made.",
		}, []string{"command", "outcome"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "mailroom_scheduled_run_seconds", Help: "How long scheduled runs took.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 4, 10),
		}, []string{"command"}),
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
	for _, d := range []*prometheus.Desc{messagesDesc, backlogDesc, oldestDesc, unreadDesc, overdueDesc, bytesDesc, daemonsDesc, upDesc} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (m *metrics) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	state, err := m.state()
	if err != nil {
		gauge(upDesc, 0)
		return
	}
	gauge(upDesc, 1)
	for status, n := range state.Totals {
		gauge(messagesDesc, float64(n), status)
	}
	unknown, oldest := int64(0), time.Duration(0)
	for _, b := range state.Recipients {
		if at, err := time.Parse(time.RFC3339, b.OldestAt); err == nil {
			oldest = max(oldest, m.router.Now().Sub(at))
		}
		if b.Known {
			gauge(backlogDesc, float64(b.Pending+b.Retry), b.Recipient)
		} else {
			unknown += b.Pending + b.Retry
		}
	}
	if unknown > 0 {
		gauge(backlogDesc, float64(unknown), "(unknown)")
	}
	gauge(oldestDesc, oldest.Seconds())
	gauge(unreadDesc, float64(state.Unread))
	gauge(overdueDesc, float64(state.Overdue))
	gauge(bytesDesc, float64(state.Bytes), "database")
	gauge(bytesDesc, float64(state.WALBytes), "wal")
	gauge(daemonsDesc, float64(len(state.Daemons)))
}

// state reads the state, at most once in stateAge, so that scrapes cannot load the database.
func (m *metrics) state() (orchestrator.State, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.at.IsZero() && time.Since(m.at) < stateAge {
		return m.last, nil
	}
	state, err := m.router.Status(context.Background())
	if err == nil {
		m.last, m.at = state, time.Now()
	}
	return state, err
}
