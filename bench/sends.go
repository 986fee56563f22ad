package main

import (
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/messages"
)

// mailroomSends measures n senders in one process that has the database open, as `serve` and Go programs do.
func mailroomSends(n int) func(*Run) Measures {
	return func(r *Run) Measures {
		names := numbered("sender", n)
		e := r.open(r.newMailroom(append(names, "recipient")...))
		return r.measureSends(n, func(sender int) error {
			_, err := messages.Send(r.ctx, e.Ledger, letter(names[sender], "recipient"))
			return err
		})
	}
}

// greedySends measures n connections in one process, one for each sender. The connections have only SQLite's busy
// timeout.
func greedySends(n int) func(*Run) Measures {
	return func(r *Run) Measures {
		names := numbered("sender", n)
		path := r.newMailroom(append(names, "recipient")...)
		connections := make([]*greedy, n)
		for i, name := range names {
			connections[i] = r.openGreedy(path, name)
		}
		return r.measureSends(n, func(sender int) error { return connections[sender].send(1) })
	}
}

// bareBatches measures the driver's raw connection, which inserts n messages and their trace rows in each synced
// transaction. The measure shows how fast SQLite itself stores such rows if it gets n messages at a time without
// waiting for senders.
func bareBatches(n int) func(*Run) Measures {
	return func(r *Run) Measures {
		g := r.openGreedy(r.newMailroom("sender1", "recipient"), "sender1")
		m := r.measureSends(1, func(int) error { return g.send(n) })
		m["rate_per_s"] *= float64(n)
		return m
	}
}

// mailroomDelivers measures the delivery of a backlog to ten inboxes.
func mailroomDelivers(backlog, least int) func(*Run) Measures {
	return func(r *Run) Measures {
		recipients := numbered("worker", 10)
		e := r.open(r.newMailroom(append(recipients, "sender1")...))
		return r.deliverBacklog(e, recipients, r.scaled(backlog, least), delivery.Options{})
	}
}

// mailroomClaims measures the delivery of a backlog into a file, one message at a time.
func mailroomClaims(backlog, least int) func(*Run) Measures {
	return func(r *Run) Measures {
		e := r.open(r.newMailroom("sender1"))
		r.addFiler(e)
		return r.deliverBacklog(e, []string{"filer"}, r.scaled(backlog, least), delivery.Options{ClaimSize: 1})
	}
}

// addFiler adds an agent whose messages are delivered into a file.
func (r *Run) addFiler(e *delivery.Engine) {
	r.addAgent(e, agents.Update{Name: "filer", Deliver: new("jsonl:" + r.Dir + "/filer.jsonl")})
}

// deliverBacklog sends n messages and measures their delivery.
func (r *Run) deliverBacklog(e *delivery.Engine, recipients []string, n int, o delivery.Options) Measures {
	r.sendBacklog(e, recipients, n)
	return r.rate(func() int {
		d := must(e.DeliverAll(r.ctx, o))
		expect(d.Delivered, n)
		return n
	})
}
