package main

import (
	"context"
	"fmt"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/traffic"
)

var waiting = Case{
	Name:  "waiting",
	Title: "status and stats with 1,000,000 waiting messages",
	About: "What status reports, and what stats does of the last 24 hours, of a database in which 1,000,000 messages to ten recipients wait, and of " +
		"one in which 1,000 do. Medians of 50 each.",
	Contestants: []Contestant{
		{Name: "mailroom", Run: func(ctx context.Context, env Env) (Measures, error) {
			return runWaiting(ctx, env, scaled(env, 1_000_000, 20_000))
		}},
		{Name: "mailroom-1000-waiting", Run: func(ctx context.Context, env Env) (Measures, error) {
			return runWaiting(ctx, env, 1000)
		}},
	},
	Targets: []Target{
		{Measure: "status_us", Against: "mailroom-1000-waiting", Want: 1.5, AtMost: true},
		{Measure: "stats_us", Against: "mailroom-1000-waiting", Want: 1.5, AtMost: true},
	},
}

func runWaiting(ctx context.Context, env Env, n int) (Measures, error) {
	path, err := newMailroom(ctx, env, append(numbered("worker", 10), "sender1")...)
	if err != nil {
		return nil, err
	}
	r, err := openMailroom(ctx, path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	for sent := 0; sent < n; {
		var drafts []orchestrator.Draft
		for range min(1000, n-sent) {
			drafts = append(drafts, letter("sender1", fmt.Sprintf("worker%d", sent%10+1)))
			sent++
		}
		if outs := messages.SendBatch(ctx, r.Ledger, drafts, true); outs[0].Refused != nil {
			return nil, outs[0].Refused
		}
	}
	if err := traffic.Count(ctx, r.Ledger); err != nil { // as whoever delivers does once a minute
		return nil, err
	}
	status, err := timed(50, func() error { return nil }, func() error {
		state, err := overview.Status(ctx, r.Ledger)
		return expect(err, int(state.Totals["pending"]), n)
	})
	if err != nil {
		return nil, err
	}
	stats, err := timed(50, func() error { return nil }, func() error {
		report, err := traffic.Of(ctx, r.Ledger, traffic.Query{Since: 24 * time.Hour, Every: time.Hour})
		return expect(err, int(report.Total.Sent), n)
	})
	return Measures{"status_us": inMicroseconds(status), "stats_us": inMicroseconds(stats)}, err
}
