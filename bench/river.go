package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"log/slog"
	"path/filepath"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivermigrate"
	_ "modernc.org/sqlite" // the driver that River's own tests use
)

// riverArgs is a message as a River job.
type riverArgs struct {
	Body json.RawMessage `json:"body"`
}

// Kind names the job type.
func (riverArgs) Kind() string { return "message" }

// openRiver opens a database as River asks for: the driver modernc.org/sqlite, WAL, one connection per process. That
// driver syncs every commit. A busy timeout is added for the cases in which two processes have it open.
func openRiver(path string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

// newRiver makes a database with River's tables.
func newRiver(ctx context.Context, env Env) (path string, db *sql.DB, err error) {
	path = filepath.Join(env.Dir, "river.db")
	if db, err = openRiver(path); err != nil {
		return "", nil, err
	}
	migrator, err := rivermigrate.New(riversqlite.New(db), &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return "", nil, err
	}
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return path, db, err
}

// riverInserter is a client that only inserts.
func riverInserter(db *sql.DB) (*river.Client[*sql.Tx], error) {
	return river.NewClient(riversqlite.New(db), &river.Config{Logger: slog.New(slog.DiscardHandler)})
}

// riverSends is n senders in one process, each inserting one job at a time.
func riverSends(n int) func(context.Context, Env) (Measures, error) {
	return func(ctx context.Context, env Env) (Measures, error) {
		_, db, err := newRiver(ctx, env)
		if err != nil {
			return nil, err
		}
		defer db.Close()
		client, err := riverInserter(db)
		if err != nil {
			return nil, err
		}
		return measureSends(ctx, env, n, func(int) error {
			_, err := client.Insert(ctx, riverArgs{Body: []byte(letterPayload)}, nil)
			return err
		})
	}
}

// riverWorker hands each job to took.
type riverWorker struct {
	river.WorkerDefaults[riverArgs]
	took func(body []byte)
}

// Work is called by River.
func (w *riverWorker) Work(_ context.Context, job *river.Job[riverArgs]) error {
	w.took(job.Args.Body)
	return nil
}

// startRiverWorker begins to work on jobs, with River's default intervals.
func startRiverWorker(ctx context.Context, db *sql.DB, took func(body []byte)) (*river.Client[*sql.Tx], error) {
	workers := river.NewWorkers()
	river.AddWorker(workers, &riverWorker{took: took})
	client, err := river.NewClient(riversqlite.New(db), &river.Config{
		Logger: slog.New(slog.DiscardHandler), Workers: workers,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 10}},
	})
	if err != nil {
		return nil, err
	}
	return client, client.Start(ctx)
}
