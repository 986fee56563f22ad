package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/messages"
)

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
		About: aboutServer + "Each sender sends one message after the other for three seconds. Mailroom has one connection on which it writes; River and pgmq " +
			"have one for each sender. " + aboutPGMQ,
		Contestants: []Contestant{
			{Name: "mailroom", Run: onServer(mailroomServerSends(n))},
			{Name: "river-server", Run: onServer(riverServerSends(n))},
			{Name: "pgmq-sql", Run: onServer(pgmqSends(n))},
		},
		Targets: targets, Missed: missed,
	}
}

const aboutPGMQ = "pgmq-sql are functions that do what those of the extension pgmq do, by its documentation; the extension itself is not in Debian."

var serverDeliver = Case{
	Name: "server-deliver", Title: "on a PostgreSQL server: deliver_all into inboxes, backlog of 20,000",
	About: aboutServer + "Mailroom puts 20,000 messages into ten inboxes, 1,000 in a transaction, with all trace rows. River works on as many jobs, with 1,000 " +
		"workers that do nothing, until all are noted as completed. With pgmq they are read and archived 100 at a time. " + aboutPGMQ,
	Contestants: []Contestant{
		{Name: "mailroom", Run: onServer(mailroomServerDeliver)},
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
	Name: "server-claim", Title: "on a PostgreSQL server: claim and settle one message after the other, backlog of 5,000",
	About: aboutServer + "Mailroom takes one message of a backlog, writes it into the file of its recipient, notes the outcome and takes the next one, with all trace rows. " +
		"With pgmq each is read, and archived. " + aboutPGMQ,
	Contestants: []Contestant{
		{Name: "mailroom", Run: onServer(mailroomServerClaim)},
		{Name: "pgmq-sql", Run: onServer(pgmqTakes(5_000, 1))},
	},
	Missed: "the row is written three times, each time with new index entries: under a lease, with a note before the transport is asked, and with the outcome; " +
		"two rows go into the trace, and one tells of the command. Both commit twice for each message. Some eight statements read what is to be done, and whether it still is.",
	Targets: []Target{{Measure: "server_cpu_us", Against: "pgmq-sql", Want: 1.3, AtMost: true}},
}

var serverWakeup = Case{
	Name: "server-wakeup", Title: "on a PostgreSQL server: wake-up, idle, from the start of send in one process until wait in another has the claimed message",
	About: aboutServer + "As in the case wakeup: 200 messages, one at a time, with pauses between them. No poll takes part: where a server tells of new messages, Mailroom looks " +
		"without being told once a minute. one-commit inserts a row instead, with the same pauses: what a durable transaction takes by itself.",
	Contestants: []Contestant{
		{Name: "mailroom", Run: onServer(func(ctx context.Context, env Env, s *pgServer) (Measures, error) {
			if err := makeMailroom(ctx, s.address, "sender", "recipient"); err != nil {
				return nil, err
			}
			return measureWakeup(ctx, env, wakeupParams{Design: "mailroom", Where: s.address}, 200)
		})},
		{Name: "one-commit", Run: onServer(oneCommit)},
	},
	Missed: "a message is two commits, the sender's and the waiter's claim, and a notice between them; some ten round trips lie in the way, each of which " +
		"wakes up a process.",
	Targets: []Target{{Measure: "median_us", Against: "one-commit", Want: 3, AtMost: true}},
}

// mailroomServerSends is n senders in one process.
func mailroomServerSends(n int) func(context.Context, Env, *pgServer) (Measures, error) {
	return func(ctx context.Context, env Env, s *pgServer) (Measures, error) {
		names := numbered("sender", n)
		if err := makeMailroom(ctx, s.address, append(names, "recipient")...); err != nil {
			return nil, err
		}
		r, err := openMailroom(ctx, s.address)
		if err != nil {
			return nil, err
		}
		m, err := s.sends(ctx, env, n, func(sender int) error {
			_, err := messages.Send(ctx, r.Ledger, letter(names[sender], "recipient"))
			return err
		})
		return m, errors.Join(err, r.Close())
	}
}

// mailroomServerDeliver delivers a backlog to ten inboxes.
func mailroomServerDeliver(ctx context.Context, env Env, s *pgServer) (Measures, error) {
	recipients := numbered("worker", 10)
	if err := makeMailroom(ctx, s.address, append(recipients, "sender1")...); err != nil {
		return nil, err
	}
	return deliverBacklog(ctx, s, recipients, scaled(env, 20_000, leastBacklog), delivery.Options{})
}

// mailroomServerClaim delivers a backlog into a file, message by message.
func mailroomServerClaim(ctx context.Context, env Env, s *pgServer) (Measures, error) {
	if err := makeMailroom(ctx, s.address, "sender1"); err != nil {
		return nil, err
	}
	r, err := openMailroom(ctx, s.address)
	if err != nil {
		return nil, err
	}
	deliver := "jsonl:" + filepath.Join(env.Dir, "filer.jsonl")
	_, _, err = agents.Add(ctx, r.Ledger, agents.Update{Name: "filer", Deliver: &deliver})
	if err := errors.Join(err, r.Close()); err != nil {
		return nil, err
	}
	return deliverBacklog(ctx, s, []string{"filer"}, scaled(env, 5_000, leastBacklog), delivery.Options{ClaimSize: 1})
}

// deliverBacklog sends n messages and delivers them.
func deliverBacklog(ctx context.Context, s *pgServer, recipients []string, n int, o delivery.Options) (Measures, error) {
	r, err := openMailroom(ctx, s.address)
	if err != nil {
		return nil, err
	}
	for sent := 0; sent < n; {
		drafts := make([]orchestrator.Draft, min(1000, n-sent))
		for i := range drafts {
			drafts[i] = letter("sender1", recipients[i%len(recipients)])
		}
		if outs := messages.SendBatch(ctx, r.Ledger, drafts, true); outs[0].Refused != nil {
			return nil, errors.Join(outs[0].Refused, r.Close())
		}
		sent += len(drafts)
	}
	m, err := s.takes(n, func() (int, error) {
		d, err := r.DeliverAll(ctx, o)
		return d.Delivered, err
	})
	return m, errors.Join(err, r.Close())
}

// oneCommit is the median time of a transaction that inserts one row, while nothing else goes on.
func oneCommit(ctx context.Context, env Env, s *pgServer) (Measures, error) {
	pool, err := s.pool(ctx, 1)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, `CREATE TABLE letters (id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY, letter text NOT NULL)`); err != nil {
		return nil, err
	}
	took, err := timed(scaled(env, 200, 5), func() error {
		return rest(ctx, 20*time.Millisecond+rand.N(20*time.Millisecond))
	}, func() error {
		_, err := pool.Exec(ctx, `INSERT INTO letters (letter) VALUES ($1)`, letterPayload)
		return err
	})
	return Measures{"median_us": inMicroseconds(took)}, err
}
