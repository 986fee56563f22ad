package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"log/slog"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivermigrate"
	_ "modernc.org/sqlite" // the driver that River's own tests use
)

// riverArgs is a message as a River job.
type riverArgs struct {
	Body json.RawMessage `json:"body"`
}

// Kind returns the name of the job type.
func (riverArgs) Kind() string { return "message" }

// openRiver opens a database as River recommends: with the driver modernc.org/sqlite, WAL and one connection per
// process. That driver syncs every commit. openRiver adds a busy timeout for the cases in which two processes have
// the database open.
func (r *Run) openRiver(path string) *riversqlite.Driver {
	const pragmas = "?_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)"
	db := must(sql.Open("sqlite", "file:"+path+pragmas))
	r.after(db.Close)
	db.SetMaxOpenConns(1)
	return riversqlite.New(db)
}

// newRiver creates River's tables.
func newRiver[Tx any](r *Run, driver riverdriver.Driver[Tx]) {
	migrator := must(rivermigrate.New(driver, &rivermigrate.Config{Logger: slog.New(slog.DiscardHandler)}))
	must(migrator.Migrate(r.ctx, rivermigrate.DirectionUp, nil))
}

// riverInserts returns a function that inserts a job.
func riverInserts[Tx any](r *Run, driver riverdriver.Driver[Tx]) func(body []byte) error {
	client := must(river.NewClient(driver, &river.Config{Logger: slog.New(slog.DiscardHandler)}))
	return func(body []byte) error {
		_, err := client.Insert(r.ctx, riverArgs{Body: body}, nil)
		return err
	}
}

// riverWorker passes each job to took.
type riverWorker struct {
	river.WorkerDefaults[riverArgs]
	took func(body []byte) error
}

// Work implements river.Worker.
func (w *riverWorker) Work(_ context.Context, job *river.Job[riverArgs]) error {
	return w.took(job.Args.Body)
}

// startRiver starts workers that run atATime jobs at a time, with River's default intervals.
func startRiver[Tx any](
	r *Run, driver riverdriver.Driver[Tx], atATime int, took func(body []byte) error,
) *river.Client[Tx] {
	workers := river.NewWorkers()
	river.AddWorker(workers, &riverWorker{took: took})
	client := must(river.NewClient(driver, &river.Config{
		Logger: slog.New(slog.DiscardHandler), Workers: workers,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: atATime}},
	}))
	check(client.Start(r.ctx))
	return client
}

// riverSends measures n senders in one process, each inserting one job at a time.
func riverSends(n int) func(*Run) Measures {
	return func(r *Run) Measures {
		driver := r.openRiver(r.Dir + "/river.db")
		newRiver(r, driver)
		insert := riverInserts(r, driver)
		return r.measureSends(n, func(int) error { return insert([]byte(letterPayload)) })
	}
}

// riverServerSends measures n senders in one process, each with a connection to a server.
func riverServerSends(n int) func(*Run) Measures {
	return func(r *Run) Measures {
		driver := riverpgxv5.New(r.pool(n))
		newRiver(r, driver)
		insert := riverInserts(r, driver)
		return r.measureSends(n, func(int) error { return insert([]byte(letterPayload)) })
	}
}

// riverServerWorks measures how fast a backlog on a server is processed, a thousand jobs at a time, until the last
// job is recorded as completed.
func riverServerWorks(backlog int) func(*Run) Measures {
	return func(r *Run) Measures {
		pool := r.pool(10)
		driver := riverpgxv5.New(pool)
		newRiver(r, driver)
		jobs := make([]river.InsertManyParams, r.scaled(backlog, leastBacklog))
		for i := range jobs {
			jobs[i].Args = riverArgs{Body: []byte(letterPayload)}
		}
		client := must(river.NewClient(driver, &river.Config{Logger: slog.New(slog.DiscardHandler)}))
		must(client.InsertManyFast(r.ctx, jobs))
		return r.rate(func() int { return r.workRiver(pool, len(jobs)) })
	}
}

// workRiver processes n jobs.
func (r *Run) workRiver(pool *pgxpool.Pool, n int) int {
	took := make(chan []byte, n)
	client := startRiver(r, riverpgxv5.New(pool), 1000, func(body []byte) error {
		took <- body
		return nil
	})
	for range n {
		select {
		case <-took:
		case <-r.ctx.Done():
			check(context.Cause(r.ctx))
		}
	}
	check(client.Stop(r.ctx))
	var completed int
	check(pool.QueryRow(r.ctx, `SELECT count(*) FROM river_job WHERE state = 'completed'`).Scan(&completed))
	expect(completed, n)
	return n
}
