package main

// cases lists every case, in the order of the report. Each stands in a file of its own, with its contestants.
var cases = []Case{
	{Name: "sends-1", Title: "durable sends, 1 sender in a process", About: aboutPeerSends, Contestants: peerSends(1)},
	{Name: "sends-8", Title: "durable sends, 8 senders in a process", About: aboutPeerSends, Contestants: peerSends(8)},
	{Name: "sends-64", Title: "durable sends, 64 senders in a process", About: aboutPeerSends, Contestants: peerSends(64)},
	procs8,
	{Name: "deliver-inbox", Title: "a backlog of 100,000 delivered into inboxes", About: aboutPeerDeliveries, Contestants: peerDeliveries()},
	wakeup,
	growth,
	clearOld,
	cold,
	idleDaemon,
}
