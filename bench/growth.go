package main

import (
	"time"

	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/process"
	"mailroom/orchestrator/reading"
)

var growth = Case{
	Name:  "growth",
	Title: "poll, wait and claim at 5,000,000 finished rows and 100 live ones",
	About: "The same look-ups in a database of 5,000,000 delivered and read messages and in one of 10,000, both with their inbox and " +
		"trace rows and with 100 live messages to ten recipients. poll lists ten of them; wait takes a message that is there; claim is a delivery " +
		"run for one recipient whose transport is a file, with one message: lease, append, settle. Medians of 300 each, of 1,500 polls.",
	Contestants: []Contestant{
		{Name: "mailroom", Run: func(r *Run) Measures { return runGrowth(r, r.scaled(5_000_000, 20_000)) }},
		{Name: "mailroom-10000-rows", Run: func(r *Run) Measures { return runGrowth(r, 10_000) }},
	},
	Targets: []Target{
		{Measure: "poll_us", Against: "mailroom-10000-rows", Want: 1.15, AtMost: true},
		{Measure: "wait_us", Against: "mailroom-10000-rows", Want: 1.15, AtMost: true},
		{Measure: "claim_us", Against: "mailroom-10000-rows", Want: 1.15, AtMost: true},
	},
}

// grown makes a database with so many finished rows and a hundred live ones.
func (r *Run) grown(rows int) (path string) {
	workers := numbered("worker", 10)
	path = r.newMailroom(append(workers, "sender1", "waiter", "filer")...)
	finished{Rows: rows, Status: "delivered", Ended: time.Hour, Senders: 1}.fill(path)
	r.within(path, func(e *delivery.Engine) { r.sendBacklog(e, workers, 100) })
	return path
}

func runGrowth(r *Run, rows int) Measures {
	e := r.open(r.kept("grown", rows, r.grown))
	r.addFiler(e)
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
	poll := timed(5*n, func() {}, func() {
		expect(len(must(delivery.Poll(r.ctx, e.Ledger, "worker3", 10)).Messages), 10)
	})
	return Measures{"poll_us": microseconds(poll), "wait_us": microseconds(wait), "claim_us": microseconds(claim)}
}
