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
	seen     *glance[sight]
}

// sight is what a scrape sees of the database.
type sight struct {
	state    orchestrator.State
	attempts orchestrator.Attempts // since this daemon began
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
	givenUpDesc  = prometheus.NewDesc("mailroom_given_up_total", "Messages that this daemon made dead letters.", nil, nil)
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
		seen: &glance[sight]{name: "metrics", log: log, look: looker(router), keep: stateAge, within: stateWithin},
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "mailroom_build_info", Help: "Always 1.", ConstLabels: prometheus.Labels{"version": version},
	})
	build.Set(1)
	m.registry.MustRegister(m, m.runs, m.seconds, build, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// looker returns a look at the database that counts attempts from now on. It must not run twice at once.
func looker(router *orchestrator.Router) func(context.Context) (sight, error) {
	total := orchestrator.Attempts{Last: -1} // unless the trace can be read now, its end at the first look is the beginning
	if begin, err := router.AttemptsAfter(context.Background(), -1); err == nil {
		total.Last = begin.Last
	}
	return func(ctx context.Context) (sight, error) {
		state, err := router.Status(ctx)
		if err != nil {
			return sight{}, err
		}
		more, err := router.AttemptsAfter(ctx, total.Last)
		if err != nil {
			return sight{}, err
		}
		total.Delivered += more.Delivered
		total.Failed += more.Failed
		total.GivenUp += more.GivenUp
		total.Last = more.Last
		return sight{state, total}, nil
	}
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
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	seen, err := m.seen.get(context.Background())
	if err != nil {
		gauge(upDesc, 0)
		return
	}
	gauge(upDesc, 1)
	count := func(d *prometheus.Desc, n int64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	count(attemptsDesc, seen.attempts.Delivered, "delivered")
	count(attemptsDesc, seen.attempts.Failed, "failed")
	count(givenUpDesc, seen.attempts.GivenUp)
	for status, n := range foldStatuses(seen.state.Totals) {
		gauge(messagesDesc, float64(n), status)
	}
	m.collectBacklog(gauge, seen.state.Recipients)
	gauge(unreadDesc, float64(seen.state.Unread))
	gauge(overdueDesc, float64(seen.state.Overdue))
	gauge(bytesDesc, float64(seen.state.Bytes), "database")
	gauge(bytesDesc, float64(seen.state.WALBytes), "wal")
	gauge(daemonsDesc, float64(len(seen.state.Daemons)))
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
