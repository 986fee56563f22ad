package sqlite

import (
	"context"
	"errors"
	"strings"

	sqlite3 "github.com/mattn/go-sqlite3"

	"mailroom/orchestrator/store"
)

// observer hears which tables the statements of this process touch.
type observer func(op, table string)

// Watch reports every table that a statement reads ("read") or writes ("write") from now on, until stop is called. It
// works through SQLite's authorizer, whose callback fires when a statement is prepared: so it makes all connections
// prepare theirs anew, and suits tests that run one command at a time, not production. Views and common table
// expressions show as the tables behind them.
func (s *Store) Watch(report func(op, table string)) (stop func()) {
	s.setObserver(report)
	return func() { s.setObserver(nil) }
}

func (s *Store) setObserver(o observer) {
	s.mu.Lock()
	s.watch = o
	s.mu.Unlock()
	if s.backend.isOpen() {
		// Within a request of its own, since nobody else uses the connection then.
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

// errUndo undoes a request that only wanted the connection to itself.
var errUndo = errors.New("nothing to commit")

// attach registers the observer on one connection; nil ends the observation.
func (o observer) attach(c *conn) {
	for query, s := range c.stmts { // prepared statements never ask the authorizer again
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
