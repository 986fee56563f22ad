package main

import (
	"time"

	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/traffic"
)

var waiting = Case{
	Name:  "waiting",
	Title: "`status` and `stats` with 1,000,000 waiting messages",
	About: "The case runs `status`, and `stats` for the last 24 hours, in two databases. In one database, 1,000,000 messages to " +
		"ten recipients wait. In the other database, 1,000 messages wait. The figures are medians of 50 runs each.",
	Contestants: []Contestant{
		{Name: "mailroom", Run: func(r *Run) Measures { return runWaiting(r, r.scaled(1_000_000, 20_000)) }},
		{Name: "mailroom-1000-waiting", Run: func(r *Run) Measures { return runWaiting(r, 1000) }},
	},
	Targets: []Target{
		{Measure: "status_us", Against: "mailroom-1000-waiting", Want: 1.5, AtMost: true},
		{Measure: "stats_us", Against: "mailroom-1000-waiting", Want: 1.5, AtMost: true},
	},
}

func runWaiting(r *Run, n int) Measures {
	workers := numbered("worker", 10)
	e := r.open(r.newMailroom(append(workers, "sender1")...))
	r.sendBacklog(e, workers, n)
	check(traffic.Count(r.ctx, e.Ledger)) // a router does so once a minute
	nothing := func() {}
	status := timed(50, nothing, func() {
		state := must(overview.Status(r.ctx, e.Ledger))
		expect(int(state.Totals["pending"]), n)
	})
	stats := timed(50, nothing, func() {
		report := must(traffic.Of(r.ctx, e.Ledger, traffic.Query{Since: 24 * time.Hour, Every: time.Hour}))
		expect(int(report.Total.Sent), n)
	})
	return Measures{"status_us": microseconds(status), "stats_us": microseconds(stats)}
}
