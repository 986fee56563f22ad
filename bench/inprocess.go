package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/messages"
)

// mailroomSends is n senders in one process that has the database open, as `serve` and Go programs do.
func mailroomSends(n int) func(context.Context, Env) (Measures, error) {
	return func(ctx context.Context, env Env) (Measures, error) {
		names := numbered("sender", n)
		path, err := newMailroom(ctx, env, append(names, "recipient")...)
		if err != nil {
			return nil, err
		}
		r, err := openMailroom(ctx, path)
		if err != nil {
			return nil, err
		}
		m, err := measureSends(ctx, env, n, func(sender int) error {
			_, err := messages.Send(ctx, r.Ledger, letter(names[sender], "recipient"))
			return err
		})
		return m, errors.Join(err, r.Close())
	}
}

// bareLoop is the driver's raw connection, which inserts message and trace row, one synced transaction each.
func bareLoop(ctx context.Context, env Env) (Measures, error) {
	path, err := newMailroom(ctx, env, "sender1", "recipient")
	if err != nil {
		return nil, err
	}
	g, err := openGreedy(path, "sender1")
	if err != nil {
		return nil, err
	}
	m, err := measureSends(ctx, env, 1, func(int) error { return g.send() })
	return m, errors.Join(err, g.close())
}

// greedySends is n connections in one process that have nothing but SQLite's busy timeout, one for each sender.
func greedySends(n int) func(context.Context, Env) (Measures, error) {
	return func(ctx context.Context, env Env) (_ Measures, err error) {
		names := numbered("sender", n)
		path, err := newMailroom(ctx, env, append(names, "recipient")...)
		if err != nil {
			return nil, err
		}
		connections := make([]*greedy, n)
		for i := range connections {
			if connections[i], err = openGreedy(path, names[i]); err != nil {
				return nil, err
			}
			defer func() { err = errors.Join(err, connections[i].close()) }()
		}
		return measureSends(ctx, env, n, func(sender int) error { return connections[sender].send() })
	}
}

// bareBatches is the bare loop with n messages in a transaction: what SQLite itself makes of the same rows when somebody
// hands it n of them at a time without waiting for senders.
func bareBatches(n int) func(context.Context, Env) (Measures, error) {
	return func(ctx context.Context, env Env) (Measures, error) {
		path, err := newMailroom(ctx, env, "sender1", "recipient")
		if err != nil {
			return nil, err
		}
		g, err := openGreedy(path, "sender1")
		if err != nil {
			return nil, err
		}
		m, err := measureSends(ctx, env, 1, func(int) error { return g.sendMany(n) })
		if err != nil {
			return nil, errors.Join(err, g.close())
		}
		m["rate_per_s"] *= float64(n)
		return m, g.close()
	}
}

// mailroomDeliver delivers a backlog to ten inboxes.
func mailroomDeliver(ctx context.Context, env Env) (Measures, error) {
	recipients := numbered("worker", 10)
	path, err := newMailroom(ctx, env, append(recipients, "sender1")...)
	if err != nil {
		return nil, err
	}
	r, err := openMailroom(ctx, path)
	if err != nil {
		return nil, err
	}
	const batch = 1000
	backlog := scaled(env, 100, 2) * batch
	for range backlog / batch {
		drafts := make([]orchestrator.Draft, batch)
		for i := range drafts {
			drafts[i] = letter("sender1", recipients[i%len(recipients)])
		}
		if outs := messages.SendBatch(ctx, r.Ledger, drafts, true); outs[0].Refused != nil {
			return nil, outs[0].Refused
		}
	}
	began := time.Now()
	d, err := r.DeliverAll(ctx, delivery.Options{})
	took := time.Since(began)
	if err := errors.Join(expect(err, d.Delivered, backlog), r.Close()); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	return Measures{"rate_per_s": float64(backlog) / took.Seconds()}, nil
}
