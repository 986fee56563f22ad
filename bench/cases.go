package main

import "fmt"

// cases lists every case, in the order of the report. Each stands in a file of its own, with its contestants.
var cases = []Case{
	sends(1,
		Target{Measure: "rate_per_s", Against: "bare-loop", Want: 0.9}),
	sends(8,
		Target{Measure: "rate_per_s", Against: "bare-loop", Want: 4.2},
		Target{Measure: "rate_per_s", Against: "jetstream-always", Want: 5},
		Target{Measure: "rate_per_s", Against: "jetstream-default", Want: 0.4}),
	sends(64,
		Target{Measure: "rate_per_s", Against: "bare-loop", Want: 10.5},
		Target{Measure: "rate_per_s", Against: "jetstream-default", Want: 0.9}),
	procs8,
	deliverInbox,
	wakeup,
	growth,
	clearOld,
	cold,
	idleDaemon,
}

// sends is the case of n senders in one process.
func sends(n int, targets ...Target) Case {
	title := "durable sends, 1 sender in a process"
	if n > 1 {
		title = fmt.Sprintf("durable sends, %d senders in a process", n)
	}
	return Case{
		Name: fmt.Sprintf("sends-%d", n), Title: title,
		About: "Each sender sends one message after the other for three seconds. The bare loop is always one sender. " + aboutPeerSends,
		Contestants: append([]Contestant{
			{Name: "mailroom", Run: mailroomSends(n)}, {Name: "bare-loop", Run: bareLoop},
		}, peerSends(n)...),
		Targets: targets,
	}
}

var deliverInbox = Case{
	Name: "deliver-inbox", Title: "deliver_all into inboxes, backlog of 100,000",
	About:       aboutPeerDeliveries,
	Contestants: append([]Contestant{{Name: "mailroom", Run: mailroomDeliver}}, peerDeliveries()...),
	Targets: []Target{
		{Measure: "rate_per_s", Against: "jetstream-always", Want: 10},
		{Measure: "rate_per_s", Against: "jetstream-default", Want: 0.75},
	},
}
