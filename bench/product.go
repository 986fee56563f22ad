package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/router"
	"mailroom/orchestrator/transport"
)

// openMailroom opens a database as the product does: with its transports and its bell.
func openMailroom(ctx context.Context, path string) (*delivery.Engine, error) {
	return router.Open(ctx, ledger.Options{
		Path:       path,
		Transports: map[string]orchestrator.Transport{"inbox": transport.Inbox{}, "jsonl": transport.JSONL{}},
		Log:        slog.New(slog.DiscardHandler),
	})
}

// newMailroom makes a database with these agents, and returns its path. It is closed.
func newMailroom(ctx context.Context, env Env, names ...string) (string, error) {
	path := filepath.Join(env.Dir, "mailroom.db")
	return path, makeMailroom(ctx, path, names...)
}

// makeMailroom is newMailroom for a database at a path or an address.
func makeMailroom(ctx context.Context, path string, names ...string) error {
	r, err := openMailroom(ctx, path)
	if err != nil {
		return err
	}
	if _, err := r.Store.Create(); err != nil {
		return errors.Join(err, r.Close())
	}
	for _, name := range names {
		if _, _, err := agents.Add(ctx, r.Ledger, agents.Update{Name: name}); err != nil {
			return errors.Join(err, r.Close())
		}
	}
	return r.Close()
}

// numbered returns n names: worker1, worker2, ...
func numbered(stem string, n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("%s%d", stem, i+1))
	}
	return names
}

// letter is a message as every contestant sends it.
func letter(sender, recipient string) orchestrator.Draft {
	return orchestrator.Draft{Sender: sender, Recipient: recipient, Type: "task_assignment", Payload: []byte(letterPayload)}
}

// letterPayload is a payload as agents send them, of some 200 bytes.
const letterPayload = `{"task_id":"TASK-31-1","spec_id":"SPEC-031","priority":"high","files":["orchestrator/send.go","orchestrator/insert.go"],"summary":"Answer senders after the commit","depends_on":["TASK-30-4"],"attempt":1}`
