package sqlite

import (
	"context"
	"errors"
	"strings"

	sqlite3 "github.com/mattn/go-sqlite3"

	"mailroom/orchestrator/store"
)

// observer is called with each table that the statements of this process use.
type observer func(op, table string)

// Watch reports every table that a statement reads ("read") or writes ("write") until stop is called. It uses
// SQLite's authorizer, which runs when a statement is prepared, and so makes all connections prepare their
// statements again. It suits tests that run one command at a time, not production. For views and common table
// expressions it reports the underlying tables.
func (s *Store) Watch(report func(op, table string)) (stop func()) {
	s.setObserver(report)
	return func() { s.setObserver(nil) }
}

func (s *Store) setObserver(o observer) {
	s.mu.Lock()
	s.watch = o
	s.mu.Unlock()
	if s.backend.isOpen() {
		// A request makes sure that nobody else uses the connection.
		s.write(context.Background(), func(*store.Transaction) error {
			o.attach(s.backend.c)
			return errUndo
		})
	}
	s.readers.mu.Lock()
	defer s.readers.mu.Unlock()
	for _, c := range s.readers.free {
		o.attach(c)
	}
}

// errUndo rolls back a request that only needed the connection for itself.
var errUndo = errors.New("nothing to commit")

// attach registers the observer on one connection. A nil observer ends the observation.
func (o observer) attach(c *conn) {
	for query, s := range c.stmts { // prepared statements never call the authorizer again
		s.Close()
		delete(c.stmts, query)
	}
	if o == nil {
		c.raw.RegisterAuthorizer(nil)
		return
	}
	c.raw.RegisterAuthorizer(func(op int, arg1, arg2, database string) int {
		if strings.HasPrefix(arg1, "pragma_") || database == "temp" {
			return sqlite3.SQLITE_OK
		}
		switch op {
		case sqlite3.SQLITE_READ:
			o("read", arg1)
		case sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE:
			o("write", arg1)
		}
		return sqlite3.SQLITE_OK
	})
}
