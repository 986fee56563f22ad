package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"path/filepath"
	"time"

	_ "github.com/mattn/go-sqlite3" // the driver in backlite's manual
	"github.com/mikestefanello/backlite"
)

// backliteTask is a message as a backlite task.
type backliteTask struct{ Body json.RawMessage }

// Config returns the configuration of the queue.
func (backliteTask) Config() backlite.QueueConfig {
	return backlite.QueueConfig{Name: "messages", MaxAttempts: 4, Backoff: 30 * time.Second, Timeout: 300 * time.Second}
}

// backliteSends measures n senders in one process, each adding one task at a time, to a database opened as in
// backlite's manual. With these settings, the driver syncs only at checkpoints (synchronous NORMAL), so that a power
// failure loses acknowledged tasks. If full is set, the driver syncs every commit.
func backliteSends(n int, full bool) func(*Run) Measures {
	return func(r *Run) Measures {
		dsn := "file:" + filepath.Join(r.Dir, "backlite.db") + "?_journal=WAL&_timeout=5000"
		if full {
			dsn += "&_synchronous=FULL"
		}
		db := must(sql.Open("sqlite3", dsn))
		r.after(db.Close)
		client := must(backlite.NewClient(backlite.ClientConfig{
			DB: db, ReleaseAfter: 10 * time.Minute, NumWorkers: 10, CleanupInterval: time.Hour,
		}))
		client.Register(backlite.NewQueue(func(context.Context, backliteTask) error { return nil }))
		check(client.Install())
		return r.measureSends(n, func(int) error {
			_, err := client.Add(backliteTask{Body: []byte(letterPayload)}).Ctx(r.ctx).Save()
			return err
		})
	}
}
