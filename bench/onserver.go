package main

import "fmt"

// leastBacklog is the number of messages in a trial of the server cases that have a backlog.
const leastBacklog = 1000

const aboutServer = "The PostgreSQL server is Debian's, with its default settings (fsync and synchronous_commit are on). Each run " +
	"starts a new server and connects to it through a socket. `server_cpu_us` is the processor time per message of all processes " +
	"of the server. "

// serverSends returns the case of n senders in one process, with the database on a server.
func serverSends(n int, missed string, targets ...Target) Case {
	title := "on a PostgreSQL server: durable sends, 1 sender in a process"
	about := aboutServer +
		"Each sender sends one message after another for three seconds. Mailroom writes on one connection. River and pgmq have one " +
		"connection for each sender. " + aboutPGMQ
	if n > 1 {
		title = fmt.Sprintf("on a PostgreSQL server: durable sends, %d senders in a process", n)
		about = fmt.Sprintf("This case is [server-sends-1](#server-sends-1) with %d senders.", n)
	}
	return Case{
		Name: fmt.Sprintf("server-sends-%d", n), Title: title,
		About: about,
		Contestants: []Contestant{
			{Name: "mailroom", Run: onServer(mailroomSends(n))},
			{Name: "river-server", Run: onServer(riverServerSends(n))},
			{Name: "pgmq-sql", Run: onServer(pgmqSends(n))},
		},
		Targets: targets, Missed: missed,
	}
}

const aboutPGMQ = "pgmq-sql is a set of functions that do what the functions of the extension pgmq do, according to its documentation. Debian " +
	"does not include the extension itself."

// aboutSame refers to the case that describes the server.
const aboutSame = "[server-sends-1](#server-sends-1) describes the server, `server_cpu_us`, and pgmq-sql. "

var serverDeliver = Case{
	Name: "server-deliver", Title: "on a PostgreSQL server: `deliver_all` into inboxes, with a backlog of 20,000",
	About: aboutSame +
		"Mailroom puts 20,000 messages into ten inboxes, with all trace rows and 1,000 messages in each transaction. River runs the " +
		"same number of jobs, with 1,000 workers that do nothing, until it has recorded all jobs as completed. pgmq reads and " +
		"archives the messages 100 at a time.",
	Contestants: []Contestant{
		{Name: "mailroom", Run: onServer(mailroomDelivers(20_000, leastBacklog))},
		{Name: "river-server", Run: onServer(riverServerWorks(20_000))},
		{Name: "pgmq-sql", Run: onServer(pgmqTakes(20_000, 100))},
	},
	Missed: "pgmq moves a row from one table with two indexes to another table. In Mailroom, a message stays in its table. The " +
		"server writes its row of forty columns again, with entries in four indexes, and checks the conditions of ten other " +
		"indexes. This work is half of the cost. Mailroom also adds a row with the payload to the inbox, adds a row to the trace, " +
		"and reads from the trace row what `stats` counts.",
	Targets: []Target{
		{Measure: "server_cpu_us", Against: "river-server", Want: 0.8, AtMost: true},
		{Measure: "server_cpu_us", Against: "pgmq-sql", Want: 1, AtMost: true},
	},
}

var serverClaim = Case{
	Name:  "server-claim",
	Title: "on a PostgreSQL server: claim and settle one message after another, with a backlog of 5,000",
	About: aboutSame +
		"Mailroom claims one message of a backlog, writes it to its recipient's file, records the outcome, and claims the next " +
		"message, with all trace rows. pgmq reads and archives each message.",
	Contestants: []Contestant{
		{Name: "mailroom", Run: onServer(mailroomClaims(5_000, leastBacklog))},
		{Name: "pgmq-sql", Run: onServer(pgmqTakes(5_000, 1))},
	},
	Missed: "Mailroom writes the row three times, each time with new index entries: with the lease, with a mark before it calls the " +
		"transport, and with the outcome. It also writes two trace rows for the message and one for the command. Both Mailroom and " +
		"pgmq commit twice for each message. About eight statements read which messages are due, and whether they are still due.",
	Targets: []Target{{Measure: "server_cpu_us", Against: "pgmq-sql", Want: 1.3, AtMost: true}},
}

var serverWakeup = Case{
	Name: "server-wakeup",
	Title: "on a PostgreSQL server: idle wake-up, from the start of `send` in one process until `wait` in another process has the " +
		"claimed message",
	About: aboutSame +
		"As in the case [wakeup](#wakeup), the sender sends 200 messages, one at a time, with pauses between them. Polling does " +
		"not affect the result. If the server notifies Mailroom of new messages, Mailroom polls only once a minute. one-commit " +
		"inserts a row instead, with the same pauses. It shows how long one durable transaction takes.",
	Contestants: []Contestant{
		{Name: "mailroom", Run: onServer(wakesMailroom)},
		{Name: "one-commit", Run: onServer(oneCommit)},
	},
	Missed: "A message needs two commits: the sender's message and the waiter's claim. Between the commits, the server notifies the " +
		"waiter. The commits and the notification take about ten round trips, and each round trip wakes up a process.",
	Targets: []Target{{Measure: "median_us", Against: "one-commit", Want: 3, AtMost: true}},
}

// oneCommit measures the median time of a transaction that inserts one row on an otherwise idle server.
func oneCommit(r *Run) Measures {
	pool := r.pool(1)
	must(pool.Exec(r.ctx, `CREATE TABLE letters (
		id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY, letter text NOT NULL)`))
	took := timed(r.scaled(200, 5), r.pause, func() {
		must(pool.Exec(r.ctx, `INSERT INTO letters (letter) VALUES ($1)`, letterPayload))
	})
	return Measures{"median_us": microseconds(took)}
}
