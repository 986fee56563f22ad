package sqlite

import (
	"context"
	"encoding/binary"
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
	mostOpen   = 16 // connections that a process reads with at the same time
)

// readerPatience is how long a reader waits for another to end before it opens a new connection. Most readers end
// sooner than a connection is opened, which takes a millisecond, or ten with 1,000 agents, and 3 KB of memory for
// each agent.
const readerPatience = 20 * time.Millisecond

// readers is a small pool of connections that cannot write. It is safe for concurrent use.
type readers struct {
	s      *Store
	places chan struct{} // one entry for each connection that is in use or being opened
	freed  chan struct{} // a hint that a connection was returned

	mu     sync.Mutex
	free   []*conn
	closed bool // returned connections are closed
}

// Read calls fn with a connection whose statements all see the same snapshot of the database. fn must not keep the
// connection, and must not write to a slow client, since an open snapshot keeps the WAL from being folded. It must
// not read through the store, because readers that wait for each other could occupy all connections. The error is
// busy if ctx ends before a connection is free.
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

// admit refuses a database that cannot be read, and tables that a newer program has made unusable for this one, even
// if the connections of the pool are older than that change.
func admit(ctx context.Context, s *Store) error {
	return s.Read(ctx, func(c *store.Conn) error { return c.Admit() })
}

// Look is like Read but without a snapshot.
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

// take waits for a place until ctx ends, and returns a connection. A free place is taken even if ctx has already
// ended.
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

// await waits for a connection that is returned soon. It returns nil if there is none.
func (p *readers) await() *conn {
	patience := time.NewTimer(readerPatience)
	defer patience.Stop()
	for {
		select {
		case <-p.freed: // the hint may be old
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

// give returns the connection of a snapshot to the pool.
func (p *readers) give(c *conn) {
	if _, err := c.Exec("ROLLBACK"); err != nil {
		p.drop(c)
		return
	}
	p.keep(c)
}

// keep returns a connection to the pool.
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

// add adds a connection to the free ones, unless there are enough, and reports whether it did.
func (p *readers) add(c *conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.free) >= maxReaders {
		return false
	}
	p.free = append(p.free, c)
	return true
}

// drop closes a connection that must not be used again and frees its place.
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

// openReader opens a connection for reading. It does not create a file: a path without a database was mistyped, or
// belongs to another folder. A file of an older version is first migrated by the writer. On a disk that cannot be
// written, a database that was closed cleanly is read without locks.
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

// tryAnyReader opens a reader. If nothing can be written beside the database, it opens one that reads without locks.
func (s *Store) tryAnyReader() (*conn, int, error) {
	c, version, err := s.tryReader(false)
	if err != nil && s.nothingCanBeWritten(err) && !walExists(s.path) {
		c, version, err = s.tryReader(true)
	}
	return c, version, err
}

// journalExists reports whether there is a rollback journal, which a power cut or a kill may have left while the file
// was being created. The first connection that can write undoes the unfinished changes; no reader can open the file
// before that.
func journalExists(path string) bool {
	_, err := os.Stat(path + "-journal")
	return err == nil
}

// isUnborn reports whether the database is not complete yet: the process that creates it still writes, or was killed.
// SQLite empties such a file when it rolls back the journal, because the journal's header contains the size 0.
func isUnborn(path string) bool {
	journal, err := os.Open(path + "-journal")
	if err != nil {
		return false
	}
	defer journal.Close()
	// Source: https://sqlite.org/fileformat.html#the_rollback_journal
	var header struct {
		Magic                 [8]byte
		Records, Nonce, Pages uint32 // Pages is the size of the file before the transaction
	}
	err = binary.Read(journal, binary.BigEndian, &header)
	return err == nil && string(header.Magic[:]) == "\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" && header.Pages == 0
}

func walExists(path string) bool {
	info, err := os.Stat(path + "-wal")
	return err == nil && info.Size() > 0
}
