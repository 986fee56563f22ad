package sqlite

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"mailroom/orchestrator/orchestratortest/helper"
	"mailroom/orchestrator/store"
)

// TestHelperProcess is what another process does for a test.
func TestHelperProcess(t *testing.T) {
	helper.Run(map[string]func(path string, in *bufio.Scanner){
		"turnstile hold":  helpHold,
		"turnstile count": helpCount,
	})
}

// makeStore makes a database in a folder of its own.
func makeStore(t *testing.T) *Store {
	t.Helper()
	s := openStore(t, filepath.Join(t.TempDir(), "a.db"), slog.New(slog.DiscardHandler))
	if _, err := s.Create(); err != nil {
		t.Fatal(err)
	}
	return s
}

// openStore opens a database.
func openStore(t *testing.T, path string, log *slog.Logger) *Store {
	t.Helper()
	nothing := func(*store.Transaction) error { return nil }
	s, err := Open(Options{
		Path: path, Now: time.Now, Log: log, Bell: store.NewLocalBell(), BusyTimeout: 10 * time.Second,
		Made: func(string) {}, Begin: nothing, End: nothing,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// add adds a row to a table that is empty in a new database.
func add(t *store.Transaction, id string) error {
	_, err := t.Exec(`INSERT INTO agent_inbox (recipient, message_id) VALUES ('b', ?)`, id)
	return err
}

// writeOne is a job that writes.
func writeOne(t *store.Transaction) error {
	n, err := t.Number(`SELECT count(*) FROM agent_inbox`)
	if err != nil {
		return err
	}
	return add(t, fmt.Sprint(n))
}

var errOwn = errors.New("its own fault")

// occupy begins a batch, which writes nothing and ends when leave is called.
func occupy(s *Store) (leave func()) {
	inside, goOn, left := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(left)
		s.write(context.Background(), func(*store.Transaction) error {
			close(inside)
			<-goOn
			return errOwn
		})
	}()
	<-inside
	return func() {
		close(goOn)
		<-left
	}
}

// queueing is a context that tells when a request waits in the queue of a writer: it asks then for the context's end.
type queueing struct {
	context.Context
	once   sync.Once
	queued chan struct{}
}

func (c *queueing) Done() <-chan struct{} {
	c.once.Do(func() { close(c.queued) })
	return c.Context.Done()
}

// queue asks for work while a batch is under way, and returns when it waits for that to end.
func queue(s *Store, work store.Work) (outcome <-chan error) {
	ctx := &queueing{Context: context.Background(), queued: make(chan struct{})}
	answer := make(chan error, 1)
	go func() { answer <- s.Write(&store.Request{Ctx: ctx, Work: work}) }()
	<-ctx.queued
	return answer
}
