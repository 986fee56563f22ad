package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"path/filepath"
	"time"

	_ "github.com/mattn/go-sqlite3" // the driver that backlite's manual uses
	"github.com/mikestefanello/backlite"
)

// backliteTask is a message as a backlite task.
type backliteTask struct{ Body json.RawMessage }

// Config names the queue.
func (backliteTask) Config() backlite.QueueConfig {
	return backlite.QueueConfig{Name: "messages", MaxAttempts: 4, Backoff: 30 * time.Second, Timeout: 300 * time.Second}
}

// newBacklite makes a database as backlite's manual does. Its driver syncs at checkpoints only (synchronous NORMAL), so
// that a power cut takes back what was acknowledged; with full it syncs every commit.
func newBacklite(env Env, full bool) (*sql.DB, *backlite.Client, error) {
	dsn := "file:" + filepath.Join(env.Dir, "backlite.db") + "?_journal=WAL&_timeout=5000"
	if full {
		dsn += "&_synchronous=FULL"
	}
	db, err := sql.Open("sqlite3", dsn)
	if err != nil {
		return nil, nil, err
	}
	client, err := backlite.NewClient(backlite.ClientConfig{
		DB: db, ReleaseAfter: 10 * time.Minute, NumWorkers: 10, CleanupInterval: time.Hour,
	})
	if err != nil {
		return nil, nil, err
	}
	client.Register(backlite.NewQueue(func(context.Context, backliteTask) error { return nil }))
	return db, client, client.Install()
}

// backliteSends is n senders in one process, each adding one task at a time.
func backliteSends(n int, full bool) func(context.Context, Env) (Measures, error) {
	return func(ctx context.Context, env Env) (Measures, error) {
		db, client, err := newBacklite(env, full)
		if err != nil {
			return nil, err
		}
		defer db.Close()
		return measureSends(ctx, env, n, func(int) error {
			_, err := client.Add(backliteTask{Body: []byte(letterPayload)}).Ctx(ctx).Save()
			return err
		})
	}
}
