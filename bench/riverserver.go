package main

import (
	"context"
	"log/slog"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// newServerRiver makes River's tables on a server, and a client that only inserts.
func newServerRiver(ctx context.Context, pool *pgxpool.Pool) (*river.Client[pgx.Tx], error) {
	quiet := slog.New(slog.DiscardHandler)
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: quiet})
	if err != nil {
		return nil, err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return nil, err
	}
	return river.NewClient(riverpgxv5.New(pool), &river.Config{Logger: quiet})
}

// onRiver gives a contestant a client of River's with some connections.
func onRiver(connections int, run func(ctx context.Context, env Env, s *pgServer, pool *pgxpool.Pool, client *river.Client[pgx.Tx]) (Measures, error)) func(context.Context, Env, *pgServer) (Measures, error) {
	return func(ctx context.Context, env Env, s *pgServer) (Measures, error) {
		pool, err := s.pool(ctx, connections)
		if err != nil {
			return nil, err
		}
		defer pool.Close()
		client, err := newServerRiver(ctx, pool)
		if err != nil {
			return nil, err
		}
		return run(ctx, env, s, pool, client)
	}
}

// riverServerSends is n senders in one process, each with a connection.
func riverServerSends(n int) func(context.Context, Env, *pgServer) (Measures, error) {
	return onRiver(n, func(ctx context.Context, env Env, s *pgServer, _ *pgxpool.Pool, client *river.Client[pgx.Tx]) (Measures, error) {
		return s.sends(ctx, env, n, func(int) error {
			_, err := client.Insert(ctx, riverArgs{Body: []byte(letterPayload)}, nil)
			return err
		})
	})
}

// riverServerWorks works on a backlog, a thousand jobs at a time.
func riverServerWorks(backlog int) func(context.Context, Env, *pgServer) (Measures, error) {
	return onRiver(10, func(ctx context.Context, env Env, s *pgServer, pool *pgxpool.Pool, client *river.Client[pgx.Tx]) (Measures, error) {
		n := scaled(env, backlog, leastBacklog)
		jobs := make([]river.InsertManyParams, n)
		for i := range jobs {
			jobs[i].Args = riverArgs{Body: []byte(letterPayload)}
		}
		if _, err := client.InsertManyFast(ctx, jobs); err != nil {
			return nil, err
		}
		return s.takes(n, func() (int, error) { return workServerRiver(ctx, pool, n, 1000) })
	})
}

// workServerRiver works on n jobs, and returns when the last is noted as completed.
func workServerRiver(ctx context.Context, pool *pgxpool.Pool, n, atATime int) (completed int, err error) {
	workers, took := river.NewWorkers(), make(chan []byte, n)
	river.AddWorker(workers, &riverWorker{took: func(body []byte) { took <- body }})
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Logger: slog.New(slog.DiscardHandler), Workers: workers,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: atATime}},
	})
	if err != nil {
		return 0, err
	}
	if err := client.Start(ctx); err != nil {
		return 0, err
	}
	for range n {
		select {
		case <-took:
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
	if err := client.Stop(ctx); err != nil {
		return 0, err
	}
	err = pool.QueryRow(ctx, `SELECT count(*) FROM river_job WHERE state = 'completed'`).Scan(&completed)
	return completed, err
}
