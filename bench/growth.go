package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"mailroom/orchestrator/agents"
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
		{Name: "mailroom", Run: func(ctx context.Context, env Env) (Measures, error) {
			return runGrowth(ctx, env, scaled(env, 5_000_000, 20_000))
		}},
		{Name: "mailroom-10000-rows", Run: func(ctx context.Context, env Env) (Measures, error) {
			return runGrowth(ctx, env, 10_000)
		}},
	},
	Targets: []Target{
		{Measure: "poll_us", Against: "mailroom-10000-rows", Want: 1.15, AtMost: true},
		{Measure: "wait_us", Against: "mailroom-10000-rows", Want: 1.15, AtMost: true},
		{Measure: "claim_us", Against: "mailroom-10000-rows", Want: 1.15, AtMost: true},
	},
}

// grown returns a database with so many finished rows. The first round makes it, beside the folder of its run, where the
// later ones find it.
func grown(ctx context.Context, env Env, rows int) (path string, err error) {
	final := filepath.Join(filepath.Dir(env.Dir), fmt.Sprintf("grown-%d", rows))
	path = filepath.Join(final, "mailroom.db")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	made, err := newMailroom(ctx, env, append(numbered("worker", 10), "sender1", "waiter", "filer")...)
	if err != nil {
		return "", err
	}
	if err := (finished{Rows: rows, Status: "delivered", Ended: time.Hour, Senders: 1}).fill(ctx, made); err != nil {
		return "", err
	}
	r, err := openMailroom(ctx, made)
	if err != nil {
		return "", err
	}
	for i := range 100 {
		if _, err := messages.Send(ctx, r.Ledger, letter("sender1", fmt.Sprintf("worker%d", i%10+1))); err != nil {
			return "", errors.Join(err, r.Close())
		}
	}
	if err := r.Close(); err != nil {
		return "", err
	}
	if err := os.MkdirAll(final, 0o700); err != nil {
		return "", err
	}
	return path, os.Rename(made, path)
}

func runGrowth(ctx context.Context, env Env, rows int) (Measures, error) {
	path, err := grown(ctx, env, rows)
	if err != nil {
		return nil, err
	}
	r, err := openMailroom(ctx, path)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	deliver := "jsonl:" + filepath.Join(env.Dir, "filer.jsonl")
	if _, _, err := agents.Add(ctx, r.Ledger, agents.Update{Name: "filer", Deliver: &deliver}); err != nil {
		return nil, err
	}
	n, lease := scaled(env, 300, 20), messages.ReadingLease{Holder: "wait", Writer: process.Self()}
	wait, err := timed(n, func() error {
		_, err := messages.Send(ctx, r.Ledger, letter("sender1", "waiter"))
		return err
	}, func() error {
		got, _, err := reading.Wait(ctx, r.Ledger, reading.Options{Recipient: "waiter", Timeout: time.Second, Limit: 10, Lease: lease})
		if err == nil {
			err = reading.Written(ctx, r.Ledger, got, lease)
		}
		return expect(err, len(got), 1)
	})
	if err != nil {
		return nil, err
	}
	claim, err := timed(n, func() error {
		_, err := messages.Send(ctx, r.Ledger, letter("sender1", "filer"))
		return err
	}, func() error {
		d, err := r.DeliverAll(ctx, delivery.Options{Recipient: "filer"})
		return expect(err, d.Delivered, 1)
	})
	if err != nil {
		return nil, err
	}
	poll, err := timed(5*n, func() error { return nil }, func() error {
		b, err := delivery.Poll(ctx, r.Ledger, "worker3", 10)
		return expect(err, len(b.Messages), 10)
	})
	if err != nil {
		return nil, err
	}
	return Measures{"poll_us": inMicroseconds(poll), "wait_us": inMicroseconds(wait), "claim_us": inMicroseconds(claim)}, nil
}

func expect(err error, got, want int) error {
	if err == nil && got != want {
		return fmt.Errorf("%d messages in place of %d", got, want)
	}
	return err
}

// timed returns the median time of do, before each of which prepare runs. The first of them are not counted.
func timed(n int, prepare, do func() error) (time.Duration, error) {
	const warmUp = 5
	var took []time.Duration
	for i := range n + warmUp {
		if err := prepare(); err != nil {
			return 0, err
		}
		began := time.Now()
		if err := do(); err != nil {
			return 0, err
		}
		if i >= warmUp {
			took = append(took, time.Since(began))
		}
	}
	return medianOf(took), nil
}
