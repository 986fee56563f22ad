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
	Title: "what commands cost at 10,000,000 finished messages, 100 live ones and 5,000 agents",
	About: "The same commands in a database of 10,000,000 delivered and read messages and in one of 10,000, both with their inbox and " +
		"trace rows, with 5,000 agents, and with 100 live messages to ten recipients. poll lists ten of them; wait takes a message that is there; claim " +
		"is a delivery run for one recipient whose transport is a file, with one message: lease, append, settle; now is what the console shows first; " +
		"clear is a run of clear_old that finds nothing to do. Medians of 300 each, of 1,500 polls, of 20 for status, now and clear. file_bytes is the " +
		"size of the file for each message.",
	Contestants: []Contestant{
		{Name: "mailroom", Run: func(r *Run) Measures { return runGrowth(r, r.scaled(10_000_000, 20_000)) }},
		{Name: "mailroom-10000-rows", Run: func(r *Run) Measures { return runGrowth(r, 10_000) }},
	},
	Targets: growthTargets("poll_us", "send_us", "wait_us", "claim_us", "status_us", "now_us", "clear_us"),
}

// growthTargets bounds measures by what they are in a small database.
func growthTargets(measures ...string) (list []Target) {
	for _, measure := range measures {
		list = append(list, Target{Measure: measure, Against: "mailroom-10000-rows", Want: 1.15, AtMost: true})
	}
	return list
}

// grown makes a database with so many finished rows and a hundred live ones.
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
	check(traffic.Count(r.ctx, e.Ledger)) // as whoever delivers does once a minute
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
	few := r.scaled(20, 5)
	status := timed(few, nothing, func() { must(overview.Status(r.ctx, e.Ledger)) })
	now := timed(few, nothing, func() { must(overview.Now(r.ctx, e.Ledger)) })
	clear := timed(few, nothing, func() { must(retention.ClearOld(r.ctx, e.Ledger, retention.ClearOptions{})) })
	return Measures{
		"poll_us": microseconds(poll), "send_us": microseconds(sends), "wait_us": microseconds(wait), "claim_us": microseconds(claim),
		"status_us": microseconds(status), "now_us": microseconds(now), "clear_us": microseconds(clear),
		"file_bytes": float64(fileSize(path)) / float64(rows),
	}
}
