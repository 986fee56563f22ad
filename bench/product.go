package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/router"
	"mailroom/orchestrator/transport"
)

// openMailroom opens a database as the product does, with its transports and its bell.
func openMailroom(ctx context.Context, path string) (*delivery.Engine, error) {
	return openMailroomAt(ctx, path, nil)
}

// openMailroomAt opens a database whose engine uses the given clock, or the usual clock if now is nil.
func openMailroomAt(ctx context.Context, path string, now func() time.Time) (*delivery.Engine, error) {
	return router.Open(ctx, ledger.Options{
		Path: path, Now: now,
		Transports: map[string]orchestrator.Transport{"inbox": transport.Inbox{}, "jsonl": transport.JSONL{}},
		Log:        slog.New(slog.DiscardHandler),
	})
}

// open opens a database that is closed at the end of the run.
func (r *Run) open(path string) *delivery.Engine {
	e := must(openMailroom(r.ctx, path))
	r.after(e.Close)
	return e
}

// within opens a database, calls f, and closes the database.
func (r *Run) within(path string, f func(e *delivery.Engine)) {
	e := must(openMailroom(r.ctx, path))
	check(errors.Join(attempt(func() { f(e) }), e.Close()))
}

// newMailroom creates a database with these agents, in the run's folder or on its server, and returns its path or
// address. The database is closed.
func (r *Run) newMailroom(names ...string) (path string) {
	path = filepath.Join(r.Dir, "mailroom.db")
	if r.server != nil {
		path = r.server.address
	}
	r.within(path, func(e *delivery.Engine) {
		must(e.Store.Create())
		for _, name := range names {
			r.addAgent(e, agents.Update{Name: name})
		}
	})
	return path
}

func (r *Run) addAgent(e *delivery.Engine, u agents.Update) {
	_, _, err := agents.Add(r.ctx, e.Ledger, u)
	check(err)
}

// numbered returns n names, such as worker1 and worker2.
func numbered(stem string, n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("%s%d", stem, i+1))
	}
	return names
}

// sendBacklog sends n messages to these recipients in turn, 1,000 in each transaction.
func (r *Run) sendBacklog(e *delivery.Engine, recipients []string, n int) {
	for sent := 0; sent < n; {
		drafts := make([]orchestrator.Draft, min(1000, n-sent))
		for i := range drafts {
			drafts[i] = letter("sender1", recipients[i%len(recipients)])
		}
		check(messages.SendBatch(r.ctx, e.Ledger, drafts, true)[0].Refused)
		sent += len(drafts)
	}
}

// letter returns the message that every contestant sends.
func letter(sender, recipient string) orchestrator.Draft {
	return orchestrator.Draft{
		Sender: sender, Recipient: recipient, Type: "task_assignment", Payload: []byte(letterPayload),
	}
}

// letterPayload is a typical payload of an agent, about 200 bytes long.
const letterPayload = `{"task_id":"TASK-31-1","spec_id":"SPEC-031","priority":"high",` +
	`"files":["orchestrator/send.go","orchestrator/insert.go"],"summary":"Answer senders after the commit",` +
	`"depends_on":["TASK-30-4"],"attempt":1}`
