package sqlite

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	sqlite3 "github.com/mattn/go-sqlite3"

	"mailroom/orchestrator/store"
	"mailroom/orchestrator/store/sqlite/tables"
)

const (
	maxReaders = 4  // connections that a process keeps for reading
	mostOpen   = 16 // connections that it reads with at the same time
)

// readerPatience is how long a reader waits for another to end before it opens a connection of its own. Most end sooner
// than one is opened, which takes a millisecond, at 1,000 agents ten, and 3 KB of memory for each agent.
const readerPatience = 20 * time.Millisecond

// readers is a small pool of connections that cannot write. Safe for concurrent use.
type readers struct {
	s      *Store
	places chan struct{} // one for each connection that somebody reads with, or opens
	freed  chan struct{} // a hint that one was given back

	mu     sync.Mutex
	free   []*conn
	closed bool // what is given back is closed
}

// Read calls fn with a connection whose statements all see the same state of the database. fn must not keep the
// connection, must not write to a slow client while it has it, since an open snapshot keeps the WAL from being folded,
// and must not read through the store: all places to read could be taken by readers that wait for another. Error: busy
// when ctx ends before there is a place.
func (s *Store) Read(ctx context.Context, fn func(c *store.Conn) error) error {
	c, err := s.readers.take(ctx)
	if err != nil {
		return databaseError(s.path, err)
	}
	if _, err := c.Exec("BEGIN"); err != nil {
		s.readers.drop(c)
		return databaseError(s.path, err)
	}
	defer s.readers.give(c)
	return s.noteDamage(databaseError(s.path, fn(c.Conn)))
}

// admit refuses a database that cannot be read, and tables that a newer program has made unfit for this one, also if
// the connections of the pool are older than that.
func admit(ctx context.Context, s *Store) error {
	return s.Read(ctx, func(c *store.Conn) error { return c.Admit() })
}

// Look is Read without a snapshot.
func (s *Store) Look(ctx context.Context, fn func(c *store.Conn) error) error {
	return s.look(ctx, func(c *conn) error { return fn(c.Conn) })
}

func (s *Store) look(ctx context.Context, fn func(c *conn) error) error {
	c, err := s.readers.take(ctx)
	if err != nil {
		return databaseError(s.path, err)
	}
	defer s.readers.keep(c)
	return s.noteDamage(databaseError(s.path, fn(c)))
}

// take waits for a place until ctx ends. One that is free is taken even if ctx has ended.
func (p *readers) take(ctx context.Context) (*conn, error) {
	select {
	case p.places <- struct{}{}:
	default:
		select {
		case p.places <- struct{}{}:
		case <-ctx.Done():
			return nil, store.GaveUp(ctx)
		}
	}
	c := p.pop()
	if c == nil && len(p.places) > 1 {
		c = p.await()
	}
	for c != nil && c.moved() {
		c.close()
		c = p.pop()
	}
	if c != nil {
		return c, nil
	}
	c, err := p.s.openReader()
	if err != nil {
		<-p.places
	}
	return c, err
}

// await returns a connection that is given back soon, or nil.
func (p *readers) await() *conn {
	patience := time.NewTimer(readerPatience)
	defer patience.Stop()
	for {
		select {
		case <-p.freed: // perhaps long ago
			if c := p.pop(); c != nil {
				return c
			}
		case <-patience.C:
			return p.pop()
		}
	}
}

// pop returns a free connection, or nil.
func (p *readers) pop() *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.free)
	if n == 0 {
		return nil
	}
	c := p.free[n-1]
	p.free = p.free[:n-1]
	c.trim()
	return c
}

// give takes back the connection of a snapshot.
func (p *readers) give(c *conn) {
	if _, err := c.Exec("ROLLBACK"); err != nil {
		p.drop(c)
		return
	}
	p.keep(c)
}

// keep takes back a connection.
func (p *readers) keep(c *conn) {
	if c.immutable || !p.add(c) {
		p.drop(c)
		return
	}
	<-p.places
	select {
	case p.freed <- struct{}{}:
	default:
	}
}

// add puts a connection among the free ones, unless there are enough.
func (p *readers) add(c *conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.free) >= maxReaders {
		return false
	}
	p.free = append(p.free, c)
	return true
}

// drop takes back a connection that is not to be used again.
func (p *readers) drop(c *conn) {
	<-p.places
	c.close()
}

func (p *readers) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, c := range p.free {
		errs = append(errs, c.close())
	}
	p.free, p.closed = nil, true
	return errors.Join(errs...)
}

// openReader opens a connection for reading. It makes no file: whoever reads at a path where there is none has mistyped
// it, or is in the wrong folder. A file of an older version is migrated through the writer first. On a disk where
// nothing can be written, a database that was closed cleanly is read as it stands.
func (s *Store) openReader() (*conn, error) {
	if s.missing() || orphanedWAL(s.path) {
		return nil, s.noDatabase()
	}
	c, version, err := s.tryAnyReader()
	interrupted := sqliteCode(err) == sqlite3.ErrReadonly && journalExists(s.path)
	if err != nil && !interrupted {
		return nil, err
	}
	if interrupted || version < tables.Version {
		if c != nil {
			c.close()
		}
		if err := s.backend.open(time.Now().Add(s.busy)); err != nil {
			return nil, err
		}
		if c, _, err = s.tryReader(false); err != nil {
			return nil, err
		}
	}
	s.found.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watch != nil {
		s.watch.attach(c)
	}
	return c, nil
}

func (s *Store) tryReader(immutable bool) (*conn, int, error) {
	c, err := s.openFile(readerDSN(s.path, immutable))
	if err != nil {
		return nil, 0, err
	}
	c.immutable = immutable
	version, err := tables.CheckVersion(c.Conn)
	if err != nil {
		c.close()
		return nil, 0, err
	}
	if !immutable {
		c.noteWAL()
	}
	return c, version, nil
}

// tryAnyReader opens a reader; where nothing can be written beside the database, one that takes the file as it stands.
func (s *Store) tryAnyReader() (*conn, int, error) {
	c, version, err := s.tryReader(false)
	if err != nil && s.nothingCanBeWritten(err) && !walExists(s.path) {
		c, version, err = s.tryReader(true)
	}
	return c, version, err
}

// journalExists reports whether a power cut may have come while the file was being made: what was begun then is undone
// by the first connection that can write, and no reader gets in before.
func journalExists(path string) bool {
	_, err := os.Stat(path + "-journal")
	return err == nil
}

func walExists(path string) bool {
	info, err := os.Stat(path + "-wal")
	return err == nil && info.Size() > 0
}
