package postgres

import (
	"context"
	"sync"
	"time"

	"mailroom/orchestrator/store"
)

const (
	maxReaders = 4  // connections that a process keeps for reading
	mostOpen   = 16 // connections that it reads with at the same time
)

// readers is a small pool of connections that only read. Safe for concurrent use.
type readers struct {
	s      *Store
	places chan struct{} // one for each connection that somebody reads with, or opens

	mu     sync.Mutex
	free   []*conn
	closed bool // what is given back is closed
}

// Read calls fn with a connection whose statements all see the same state of the database.
func (s *Store) Read(ctx context.Context, fn func(c *store.Conn) error) error {
	return s.readers.with(ctx, func(c *conn) error {
		// The state is that of the first statement.
		if err := c.script(context.Background(), "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT 1"); err != nil {
			return err
		}
		defer func() {
			if c.script(context.Background(), "ROLLBACK") != nil {
				c.close()
			}
		}()
		return fn(&store.Conn{Driver: c})
	})
}

// Look is Read without a snapshot.
func (s *Store) Look(ctx context.Context, fn func(c *store.Conn) error) error {
	return s.readers.with(ctx, func(c *conn) error { return fn(&store.Conn{Driver: c}) })
}

// with calls fn with a connection.
func (p *readers) with(ctx context.Context, fn func(c *conn) error) error {
	select {
	case p.places <- struct{}{}:
	default:
		select {
		case p.places <- struct{}{}:
		case <-ctx.Done():
			return store.GaveUp(ctx)
		}
	}
	defer func() { <-p.places }()
	c := p.pop()
	if c == nil {
		var err error
		if c, err = p.s.open(context.WithoutCancel(ctx)); err != nil {
			return p.s.Explain(err)
		}
	}
	defer p.keep(c)
	return p.s.Explain(fn(c))
}

// asksAfter is after how long a connection that nobody used is asked whether it is still there.
const asksAfter = time.Second

// pop returns a free connection that is still there, or nil.
func (p *readers) pop() *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.free) > 0 {
		c := p.free[len(p.free)-1]
		p.free = p.free[:len(p.free)-1]
		if time.Since(c.used) < asksAfter || c.script(context.Background(), "SELECT 1") == nil {
			return c
		}
		c.close()
	}
	return nil
}

// keep takes back a connection.
func (p *readers) keep(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.free) >= maxReaders || c.raw.IsClosed() || c.raw.TxStatus() != 'I' {
		c.close()
		return
	}
	c.used = time.Now()
	p.free = append(p.free, c)
}

func (p *readers) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.free {
		c.close()
	}
	p.free, p.closed = nil, true
}
