package main

import "fmt"

// leastBacklog is how many messages wait in a trial of the cases with a backlog on a server.
const leastBacklog = 1000

const aboutServer = "On a PostgreSQL server, Debian's with its default settings (fsync and synchronous_commit on), which each run starts anew and reaches by a " +
	"socket. server_cpu_us is the processor time of all the server's processes for each message. "

// serverSends is the case of n senders in one process, with the database on a server.
func serverSends(n int, missed string, targets ...Target) Case {
	title := "on a PostgreSQL server: durable sends, 1 sender in a process"
	if n > 1 {
		title = fmt.Sprintf("on a PostgreSQL server: durable sends, %d senders in a process", n)
	}
	return Case{
		Name: fmt.Sprintf("server-sends-%d", n), Title: title,
		About: aboutServer +
			"Each sender sends one message after the other for three seconds. Mailroom has one connection on which it writes; River and pgmq " +
			"have one for each sender. " + aboutPGMQ,
		Contestants: []Contestant{
			{Name: "mailroom", Run: onServer(mailroomSends(n))},
			{Name: "river-server", Run: onServer(riverServerSends(n))},
			{Name: "pgmq-sql", Run: onServer(pgmqSends(n))},
		},
		Targets: targets, Missed: missed,
	}
}

const aboutPGMQ = "pgmq-sql are functions that do what those of the extension pgmq do, by its documentation; the extension itself is not in Debian."

var serverDeliver = Case{
	Name: "server-deliver", Title: "on a PostgreSQL server: deliver_all into inboxes, backlog of 20,000",
	About: aboutServer +
		"Mailroom puts 20,000 messages into ten inboxes, 1,000 in a transaction, with all trace rows. River works on as many jobs, with 1,000 " +
		"workers that do nothing, until all are noted as completed. With pgmq they are read and archived 100 at a time. " + aboutPGMQ,
	Contestants: []Contestant{
		{Name: "mailroom", Run: onServer(mailroomDelivers(20_000, leastBacklog))},
		{Name: "river-server", Run: onServer(riverServerWorks(20_000))},
		{Name: "pgmq-sql", Run: onServer(pgmqTakes(20_000, 100))},
	},
	Missed: "pgmq moves a row from one table with two indexes to another. Here a message stays: its row of forty columns is written anew, with entries in four " +
		"indexes and a look at the conditions of ten others, which is half of the cost; a row is added to the inbox, with its payload, and one to the trace; and " +
		"what stats count is read from it.",
	Targets: []Target{
		{Measure: "server_cpu_us", Against: "river-server", Want: 0.8, AtMost: true},
		{Measure: "server_cpu_us", Against: "pgmq-sql", Want: 1, AtMost: true},
	},
}

var serverClaim = Case{
	Name:  "server-claim",
	Title: "on a PostgreSQL server: claim and settle one message after the other, backlog of 5,000",
	About: aboutServer +
		"Mailroom takes one message of a backlog, writes it into the file of its recipient, notes the outcome and takes the next one, with all trace rows. " +
		"With pgmq each is read, and archived. " + aboutPGMQ,
	Contestants: []Contestant{
		{Name: "mailroom", Run: onServer(mailroomClaims(5_000, leastBacklog))},
		{Name: "pgmq-sql", Run: onServer(pgmqTakes(5_000, 1))},
	},
	Missed: "the row is written three times, each time with new index entries: under a lease, with a note before the transport is asked, and with the outcome; " +
		"two rows go into the trace, and one tells of the command. Both commit twice for each message. Some eight statements read what is to be done, and whether it still is.",
	Targets: []Target{{Measure: "server_cpu_us", Against: "pgmq-sql", Want: 1.3, AtMost: true}},
}

var serverWakeup = Case{
	Name:  "server-wakeup",
	Title: "on a PostgreSQL server: wake-up, idle, from the start of send in one process until wait in another has the claimed message",
	About: aboutServer +
		"As in the case wakeup: 200 messages, one at a time, with pauses between them. No poll takes part: where a server tells of new messages, Mailroom looks " +
		"without being told once a minute. one-commit inserts a row instead, with the same pauses: what a durable transaction takes by itself.",
	Contestants: []Contestant{
		{Name: "mailroom", Run: onServer(wakesMailroom)},
		{Name: "one-commit", Run: onServer(oneCommit)},
	},
	Missed: "a message is two commits, the sender's and the waiter's claim, and a notice between them; some ten round trips lie in the way, each of which " +
		"wakes up a process.",
	Targets: []Target{{Measure: "median_us", Against: "one-commit", Want: 3, AtMost: true}},
}

// oneCommit is the median time of a transaction that inserts one row, while nothing else goes on.
func oneCommit(r *Run) Measures {
	pool := r.pool(1)
	must(pool.Exec(r.ctx, `CREATE TABLE letters (
		id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY, letter text NOT NULL)`))
	took := timed(r.scaled(200, 5), r.pause, func() {
		must(pool.Exec(r.ctx, `INSERT INTO letters (letter) VALUES ($1)`, letterPayload))
	})
	return Measures{"median_us": microseconds(took)}
}
