package main

import "fmt"

// cases lists every case, in the order of the report. Each case has a file of its own, with its contestants.
var cases = []Case{
	sends(1, "In addition to writing the two rows, a send reads the last stored time and the version of the configuration (6 µs). "+
		"It also takes its turn among the processes (2 µs), looks for listeners (1 µs), makes an ID that sorts by time, and checks "+
		"its input.",
		Target{Measure: "rate_per_s", Against: "bare-loop", Want: 0.9}),
	sends(8, "The ceiling is bare-batches, in which SQLite alone gets eight such messages at a time from a single goroutine. The "+
		"cost of bare-batches is the cost of the tables: forty columns, four indexes of an unfinished message, and two indexes of "+
		"its trace row. The plain queue has one table and one index. A batch takes 340 µs: 130 µs for the disk, 150 to 170 µs for "+
		"SQLite, and the rest for waking up seven senders. With eight senders, we also tried to write each batch while the disk "+
		"was still writing the previous batch. This method was slower (17,000/s), because the batches became half as big. "+
		"jetstream-default does not wait for the disk. "+aboutDisk+"With one fdatasync in 192 µs, the ratio was 3.76.",
		Target{Measure: "rate_per_s", Against: "bare-loop", Want: 4.2},
		Target{Measure: "rate_per_s", Against: "plain-full", Want: 6},
		Target{Measure: "rate_per_s", Against: "jetstream-always", Want: 5},
		Target{Measure: "rate_per_s", Against: "jetstream-default", Want: 0.4}),
	sends(64, "The ceiling is bare-batches, which shows the rate of SQLite alone with batches of this size. jetstream-default does "+
		"not wait for the disk. "+aboutDisk+"With one fdatasync in 192 µs, the ratio was 10.1.",
		Target{Measure: "rate_per_s", Against: "bare-loop", Want: 11.5},
		Target{Measure: "rate_per_s", Against: "jetstream-default", Want: 0.9}),
	procs8,
	sendStdin,
	deliverInbox,
	wakeup,
	growth,
	waiting,
	consoleCase,
	consoleLive,
	clearOld,
	month,
	cold,
	hook,
	remoteCase,
	idle,
	serverSends(1, "A send needs two round trips and one commit, as in River. In addition to the message with four indexes, Mailroom writes a "+
		"trace row, and the mark by which it recognizes a lost commit. It also takes two locks, and notifies other processes in a "+
		"separate transaction, which does not wait for the disk.",
		Target{Measure: "rate_per_s", Against: "river-server", Want: 1.5},
		Target{Measure: "rate_per_s", Against: "pgmq-sql", Want: 0.6}),
	serverSends(8, "The messages of Mailroom's eight senders share one transaction. River and pgmq run eight transactions at the same time, and "+
		"the server writes their commits to the disk together.",
		Target{Measure: "rate_per_s", Against: "river-server", Want: 2},
		Target{Measure: "rate_per_s", Against: "pgmq-sql", Want: 0.6}),
	serverSends(64, "The target comes from a test in which the server spent 2,708 µs on a job of River. In this case, River has a "+
		"connection for each sender, and all connections are open and prepared before the run. The server then spends a fraction "+
		"of that time on a job.",
		Target{Measure: "rate_per_s", Against: "river-server", Want: 6},
		Target{Measure: "rate_per_s", Against: "pgmq-sql", Want: 1.2},
		Target{Measure: "server_cpu_us", Against: "river-server", Want: 0.2, AtMost: true},
		Target{Measure: "server_cpu_us", Against: "pgmq-sql", Want: 0.8, AtMost: true}),
	serverDeliver,
	serverClaim,
	serverWakeup,
}

// aboutDisk explains why a faster disk lowers the ratio to bare-loop.
const aboutDisk = "bare-loop waits for the disk once for each message, so a disk that is twice as fast makes it nearly twice as " +
	"fast. Mailroom's senders share the waits, and are limited by the processors. The ratio therefore depends on the disk. "

// findCase returns the case with the given name, or nil if there is none.
func findCase(name string) *Case {
	for i := range cases {
		if cases[i].Name == name {
			return &cases[i]
		}
	}
	return nil
}

// sends returns the case of n senders in one process.
func sends(n int, missed string, targets ...Target) Case {
	title := "durable sends, 1 sender in a process"
	about := "Each sender sends one message after another for three seconds. " + aboutSends + aboutPeerSends
	if n > 1 {
		title = fmt.Sprintf("durable sends, %d senders in a process", n)
		about = fmt.Sprintf("This case is [sends-1](#sends-1) with %d senders.", n)
	}
	return Case{
		Name: fmt.Sprintf("sends-%d", n), Title: title,
		About: about,
		Contestants: append([]Contestant{
			{Name: "mailroom", Run: mailroomSends(n)},
			{Name: "bare-loop", Run: bareBatches(1)}, {Name: "bare-batches", Run: bareBatches(n)},
			{Name: "plain-full", Run: plainSends(n, "FULL")}, {Name: "plain-normal", Run: plainSends(n, "NORMAL")},
			{Name: "greedy", Run: greedySends(n)},
		}, peerSends(n)...),
		Targets: targets, Missed: missed,
	}
}

const aboutDeliveries = "Mailroom puts 100,000 messages into ten inboxes, with all trace rows. For three seconds, the plain queue takes one message " +
	"after another from such a backlog and removes it, in one transaction for each message. "

const aboutSends = "Mailroom checks each message and writes it, with all its indexes and its trace row, in the order of sending. " +
	"It competes with the following contestants:\n\n" +
	"- bare-loop always has one sender. SQLite's driver alone inserts the message and its trace row into the same tables as " +
	"Mailroom, in one synced transaction for each message.\n" +
	"- bare-batches does the same, but with as many messages in a transaction as there are senders. Its rate is the highest that " +
	"SQLite reaches with these rows if SQLite does not have to wait for senders.\n" +
	"- plain-full and plain-normal are plain queues, built like the small queues that use SQLite: one table, and one transaction " +
	"for each message. plain-normal loses acknowledged messages if the power is cut.\n" +
	"- greedy has a raw connection for each sender and SQLite's busy timeout of 10 s. It writes the same rows as bare-loop.\n"

var deliverInbox = Case{
	Name: "deliver-inbox", Title: "`deliver_all` into inboxes, with a backlog of 100,000",
	About: aboutDeliveries + aboutPeerDeliveries,
	Contestants: append([]Contestant{
		{Name: "mailroom", Run: mailroomDelivers(100_000, 2000)},
		{Name: "plain-full", Run: plainDelivers("FULL")}, {Name: "plain-normal", Run: plainDelivers("NORMAL")},
	}, peerDeliveries()...),
	Targets: []Target{
		{Measure: "rate_per_s", Against: "plain-full", Want: 45},
		{Measure: "rate_per_s", Against: "jetstream-always", Want: 15},
		{Measure: "rate_per_s", Against: "jetstream-default", Want: 0.75},
	},
}
