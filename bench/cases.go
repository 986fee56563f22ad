package main

import "fmt"

// cases lists every case, in the order of the report. Each stands in a file of its own, with its contestants.
var cases = []Case{
	sends(1, "beside the two rows, a send reads the last time stored and the version of the configuration (6 µs), takes its "+
		"turn among the processes (2 µs), looks for listeners (1 µs), makes an id that sorts, and checks what it is given.",
		Target{Measure: "rate_per_s", Against: "bare-loop", Want: 0.9}),
	sends(8, "bare-batches is the ceiling: SQLite alone, handed eight such messages at a time by a single goroutine. Its cost is the table "+
		"itself: forty columns, four indexes of a live message and two of its trace against one table and one index of the plain queue. "+
		"Of 340 µs for a batch, 130 are the disk's, 150 to 170 SQLite's, and the rest is waking up seven senders. To write the next batch while the disk "+
		"has the last was tried for eight senders and was slower (17,000/s): the batches become half as big. JetStream's default does not wait for the disk.",
		Target{Measure: "rate_per_s", Against: "bare-loop", Want: 4.2},
		Target{Measure: "rate_per_s", Against: "plain-full", Want: 6},
		Target{Measure: "rate_per_s", Against: "jetstream-always", Want: 5},
		Target{Measure: "rate_per_s", Against: "jetstream-default", Want: 0.4}),
	sends(64, "bare-batches is what SQLite makes of such batches by itself; JetStream's default does not wait for the disk.",
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
	serverSends(1, "a send is two round trips and one commit, as River's is; beside the message with four indexes it writes a trace row and the mark by which a lost commit is "+
		"recognized, takes two locks, and tells other processes of it in a transaction of its own, which no disk waits for.",
		Target{Measure: "rate_per_s", Against: "river-server", Want: 1.5},
		Target{Measure: "rate_per_s", Against: "pgmq-sql", Want: 0.6}),
	serverSends(8, "the messages of eight senders share a transaction, while River and pgmq have eight transactions under way, whose commits the server "+
		"writes to the disk together.",
		Target{Measure: "rate_per_s", Against: "river-server", Want: 2},
		Target{Measure: "rate_per_s", Against: "pgmq-sql", Want: 0.6}),
	serverSends(64, "the target comes from a probe in which the server spent 2,708 µs on a job of River's; here, where River has a connection for each sender "+
		"and all of them are open and prepared before, it spends a fraction of that.",
		Target{Measure: "rate_per_s", Against: "river-server", Want: 6},
		Target{Measure: "rate_per_s", Against: "pgmq-sql", Want: 1.2},
		Target{Measure: "server_cpu_us", Against: "river-server", Want: 0.2, AtMost: true},
		Target{Measure: "server_cpu_us", Against: "pgmq-sql", Want: 0.8, AtMost: true}),
	serverDeliver,
	serverClaim,
	serverWakeup,
}

// findCase returns nil when there is no such case.
func findCase(name string) *Case {
	for i := range cases {
		if cases[i].Name == name {
			return &cases[i]
		}
	}
	return nil
}

// sends is the case of n senders in one process.
func sends(n int, missed string, targets ...Target) Case {
	title := "durable sends, 1 sender in a process"
	if n > 1 {
		title = fmt.Sprintf("durable sends, %d senders in a process", n)
	}
	return Case{
		Name: fmt.Sprintf("sends-%d", n), Title: title,
		About: "Each sender sends one message after the other for three seconds. " + aboutSends + aboutPeerSends,
		Contestants: append([]Contestant{
			{Name: "mailroom", Run: mailroomSends(n)},
			{Name: "bare-loop", Run: bareBatches(1)}, {Name: "bare-batches", Run: bareBatches(n)},
			{Name: "plain-full", Run: plainSends(n, "FULL")}, {Name: "plain-normal", Run: plainSends(n, "NORMAL")},
			{Name: "greedy", Run: greedySends(n)},
		}, peerSends(n)...),
		Targets: targets, Missed: missed,
	}
}

const aboutDeliveries = "Mailroom puts 100,000 messages into ten inboxes, with all trace rows. The plain queue takes message after " +
	"message from such a backlog and removes it, a transaction each, for three seconds. "

const aboutSends = "Mailroom writes the message with all its indexes and its trace row, checked and in the order of sending. The bare " +
	"loop is always one sender: SQLite's driver and nothing else, inserting message and trace row into the same tables, one " +
	"transaction each, synced. bare-batches does the same with as many messages in a transaction as there are senders: the most that SQLite makes of " +
	"these rows when nobody has to be waited for. The plain queue is built as the small queues in SQLite are: one table, one transaction for each " +
	"message; plain-normal loses what was acknowledged when the power is cut. greedy has a raw connection for each sender and SQLite's " +
	"busy timeout of 10 s, and writes the same rows as the bare loop. "

var deliverInbox = Case{
	Name: "deliver-inbox", Title: "deliver_all into inboxes, backlog of 100,000",
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
