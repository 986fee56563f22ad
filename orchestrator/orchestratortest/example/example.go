// Package example opens databases for the Example functions of the engine's packages, so that each example can focus
// on one subject.
package example

import (
	"context"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/router"
	"mailroom/orchestrator/transport"
)

// Open creates a database in a temporary folder, and adds agents with these names and the transport inbox. done
// closes the database and removes the folder. A failure ends the process.
func Open(names ...string) (e *delivery.Engine, done func()) { return OpenWith(time.Now, names...) }

// OpenWith opens a database like Open, but with the given clock.
func OpenWith(now func() time.Time, names ...string) (e *delivery.Engine, done func()) {
	folder, err := os.MkdirTemp("", "mailroom")
	if err != nil {
		log.Fatal(err)
	}
	e, err = router.Open(context.Background(), ledger.Options{
		Path: filepath.Join(folder, "mailroom.db"),
		Transports: map[string]orchestrator.Transport{"inbox": transport.Inbox{}, "jsonl": transport.JSONL{},
			"dir": transport.Dir{}},
		Log: slog.New(slog.DiscardHandler), Now: now,
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, name := range names {
		if _, _, err := agents.Add(context.Background(), e.Ledger, agents.Update{Name: name}); err != nil {
			log.Fatal(err)
		}
	}
	return e, func() {
		if err := e.Close(); err != nil {
			log.Fatal(err)
		}
		if err := os.RemoveAll(folder); err != nil {
			log.Fatal(err)
		}
	}
}
