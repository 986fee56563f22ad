package main

import (
	"time"

	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/process"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/retention"
	"mailroom/orchestrator/traffic"
)

var growth = Case{
	Name:  "growth",
	Title: "the cost of commands with 10,000,000 finished messages, 100 unfinished messages, and 5,000 agents",
	About: "The case runs the same commands in a database with 10,000,000 delivered and read messages and in a database with " +
		"10,000. Both databases also contain the inbox and trace rows of these messages, 5,000 agents, and 100 unfinished messages " +
		"to ten recipients:\n\n" +
		"- poll lists ten of the unfinished messages.\n" +
		"- wait reads a message that has already arrived.\n" +
		"- claim is a delivery run with one message for one recipient that has a file transport. The run leases, appends, and " +
		"settles the message.\n" +
		"- now returns what the console shows first.\n" +
		"- clear is a run of `clear_old` that finds nothing to do.\n\n" +
		"The figures are medians of 300 runs each, except for poll (1,500 runs) and for status, now, and clear (200 runs). " +
		"`file_bytes` is the size of the file divided by the number of messages.",
	Contestants: []Contestant{
		{Name: "mailroom", Run: func(r *Run) Measures { return runGrowth(r, r.scaled(10_000_000, 20_000)) }},
		{Name: "mailroom-10000-rows", Run: func(r *Run) Measures { return runGrowth(r, 10_000) }},
	},
	Targets: growthTargets("poll_us", "send_us", "wait_us", "claim_us", "status_us", "now_us", "clear_us"),
}

// growthTargets limits each measure to 1.15 times its value in a small database.
func growthTargets(measures ...string) (list []Target) {
	for _, measure := range measures {
		list = append(list, Target{Measure: measure, Against: "mailroom-10000-rows", Want: 1.15, AtMost: true})
	}
	return list
}

// grown creates a database with the given number of finished messages and a hundred unfinished ones.
func (r *Run) grown(rows int) (path string) {
	workers := numbered("worker", 5000)
	path = r.newMailroom(append(workers, "sender1", "waiter", "filer")...)
	finished{Rows: rows, Status: "delivered", Ended: time.Hour, Senders: 1}.fill(path)
	r.within(path, func(e *delivery.Engine) { r.sendBacklog(e, workers[:10], 100) })
	return path
}

func runGrowth(r *Run, rows int) Measures {
	path := r.kept("grown", rows, r.grown)
	e := r.open(path)
	r.addFiler(e)
	check(traffic.Count(r.ctx, e.Ledger)) // a router does so once a minute
	send := func(to string) func() {
		return func() { must(messages.Send(r.ctx, e.Ledger, letter("sender1", to))) }
	}
	n, lease := r.scaled(300, 20), messages.ReadingLease{Holder: "wait", Writer: process.Self()}
	wait := timed(n, send("waiter"), func() {
		o := reading.Options{Recipient: "waiter", Timeout: time.Second, Limit: 10, Lease: lease}
		got, _, err := reading.Wait(r.ctx, e.Ledger, o)
		check(err)
		check(reading.Written(r.ctx, e.Ledger, got, lease))
		expect(len(got), 1)
	})
	claim := timed(n, send("filer"), func() {
		expect(must(e.DeliverAll(r.ctx, delivery.Options{Recipient: "filer"})).Delivered, 1)
	})
	nothing := func() {}
	poll := timed(5*n, nothing, func() {
		expect(len(must(delivery.Poll(r.ctx, e.Ledger, "worker3", 10)).Messages), 10)
	})
	sends := timed(n, nothing, send("worker3"))
	several := r.scaled(200, 5)
	status := timed(several, nothing, func() { must(overview.Status(r.ctx, e.Ledger)) })
	now := timed(several, nothing, func() { must(overview.Now(r.ctx, e.Ledger)) })
	clear := timed(several, nothing, func() { must(retention.ClearOld(r.ctx, e.Ledger, retention.ClearOptions{})) })
	return Measures{
		"poll_us": microseconds(poll), "send_us": microseconds(sends), "wait_us": microseconds(wait), "claim_us": microseconds(claim),
		"status_us": microseconds(status), "now_us": microseconds(now), "clear_us": microseconds(clear),
		"file_bytes": float64(fileSize(path)) / float64(rows),
	}
}
