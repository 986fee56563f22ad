package postgres

import (
	"cmp"
	"context"
	"database/sql/driver"
	"sync"
	"time"

	"mailroom/orchestrator/store"
)

const (
	maxReaders = 4  // connections that a process keeps for reading
	mostOpen   = 16 // connections that a process reads with at the same time
)

// readers is a small pool of connections that only read. It is safe for concurrent use.
type readers struct {
	s      *Store
	places chan struct{} // one entry for each connection that is in use or being opened

	mu     sync.Mutex
	free   []*conn
	closed bool // returned connections are closed
}

// Read calls fn with a connection whose statements all see the same snapshot of the database. If the connection is
// lost, fn runs again on another one.
func (s *Store) Read(ctx context.Context, fn func(c *store.Conn) error) error {
	return s.readers.with(ctx, func(r *reader) error {
		defer r.end()
		r.snapshot = true
		run := func(begin func() error) (err error) {
			if r.lost = begin(); r.lost == nil {
				err = fn(&store.Conn{Driver: r})
			}
			return cmp.Or(r.lost, err) // whatever fn has made of the loss
		}
		err := run(r.begin)
		for tries := 0; isLost(r.lost) && tries < maxTries && ctx.Err() == nil; tries++ {
			err = run(r.renew)
		}
		return err
	})
}

// Look is like Read but without a snapshot.
func (s *Store) Look(ctx context.Context, fn func(c *store.Conn) error) error {
	return s.readers.with(ctx, func(r *reader) error { return fn(&store.Conn{Driver: r}) })
}

// reader is a connection in use for reading.
type reader struct {
	*conn
	s        *Store
	ctx      context.Context
	snapshot bool  // all statements see the same snapshot
	lost     error // how the connection with the snapshot was lost; nil while it is open

	unwatch func() // ends the watch of the servers

	mu   sync.Mutex // held while the connection is replaced
	over bool
}

// begin takes the snapshot, which is the state that the first statement sees.
func (r *reader) begin() error {
	if !r.snapshot {
		return nil
	}
	return r.Do(context.Background(), "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT 1")
}

// QueryBound runs a statement. Without a snapshot, it runs the statement again on another connection if this one is
// lost.
func (r *reader) QueryBound(text string, args []driver.NamedValue) (driver.Rows, int, error) {
	found, columns, err := r.conn.QueryBound(text, args)
	if r.snapshot {
		if isLost(err) {
			r.lost = cmp.Or(r.lost, err)
		}
		return found, columns, err
	}
	for tries := 0; isLost(err) && tries < maxTries && r.ctx.Err() == nil; tries++ {
		if err = r.renew(); err == nil {
			found, columns, err = r.conn.QueryBound(text, args)
		}
	}
	return found, columns, err
}

// Admit implements store.Driver.
func (r *reader) Admit() error { return admitBy(r, r.knows) }

func (r *reader) end() {
	if r.conn.Raw.IsClosed() {
		return
	}
	if r.Do(context.Background(), "ROLLBACK") != nil {
		r.Close()
	}
}

// patienceAfter is how long a server may take to answer a statement whose caller has given up.
const patienceAfter = 5 * time.Second

// abandon cancels the statement of a caller that has given up. It closes the connection if the connection is still
// in use some time later, since a server that does not answer at all may never do so.
func (r *reader) abandon() {
	r.mu.Lock()
	c := r.conn
	r.mu.Unlock()
	c.Cancel()
	time.AfterFunc(patienceAfter, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.over {
			r.conn.Raw.Conn().Close()
		}
	})
}

// renew continues with another connection.
func (r *reader) renew() error {
	c, err := r.s.open(r.ctx)
	if err != nil {
		return err
	}
	c.Batch, c.ReadOnly = r.Batch, true
	r.Close()
	r.mu.Lock()
	r.conn = c
	r.mu.Unlock()
	r.unwatch()
	r.unwatch = r.s.watch(hangsAfter, asksAgain)
	return r.begin()
}

// with calls fn with a connection.
func (p *readers) with(ctx context.Context, fn func(r *reader) error) error {
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
	c := p.take(ctx)
	if c == nil {
		var err error
		if c, err = p.s.open(ctx); err != nil {
			if ctx.Err() != nil {
				return store.GaveUp(ctx)
			}
			return p.s.Explain(err)
		}
	}
	c.ReadOnly = true
	r := &reader{conn: c, s: p.s, ctx: ctx}
	defer r.done()
	stop := context.AfterFunc(ctx, r.abandon)
	defer stop()
	r.unwatch = p.s.watch(hangsAfter, asksAgain)
	defer func() { r.unwatch() }()
	err := fn(r)
	if ctx.Err() != nil && (isLost(err) || codeOf(err) == queryCanceled) {
		return store.GaveUp(ctx)
	}
	return p.s.Explain(err)
}

// asksAfter is the time after which an unused connection is tested before it is used. It is also the time limit of
// the test.
const asksAfter = time.Second

func (r *reader) done() {
	r.mu.Lock()
	r.over = true
	r.mu.Unlock()
	if r.ctx.Err() != nil { // a late cancel request may still arrive
		r.conn.Drop()
		return
	}
	r.s.readers.keep(r.conn)
}

// take returns a free connection that still works, or nil.
func (p *readers) take(ctx context.Context) *conn {
	for c := p.pop(); c != nil; c = p.pop() {
		if time.Since(c.used) < asksAfter || c.answers(ctx) {
			return c
		}
		c.Drop()
	}
	return nil
}

// pop returns a free connection, or nil.
func (p *readers) pop() *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free) == 0 {
		return nil
	}
	c := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	return c
}

// answers reports whether the connection still works.
func (c *conn) answers(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, asksAfter)
	defer cancel()
	return c.Do(ctx, "SELECT 1") == nil
}

// keep returns a connection to the pool.
func (p *readers) keep(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.free) >= maxReaders || c.Raw.IsClosed() || c.Raw.TxStatus() != 'I' {
		c.Close()
		return
	}
	c.used = time.Now()
	p.free = append(p.free, c)
}

func (p *readers) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.free {
		c.Close()
	}
	p.free, p.closed = nil, true
}
