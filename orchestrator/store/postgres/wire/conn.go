// Package wire runs the engine's statements, which are SQLite's, on one connection to a PostgreSQL server: rewritten,
// prepared, and sent together where their answers are not waited for.
package wire

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Conn is one connection with its prepared statements. Values go and come as text, so that a number may stand where the
// server wants text, as SQLite takes it. Not safe for concurrent use, but for Cancel, Drop and IsOver.
type Conn struct {
	Raw   *pgconn.PgConn
	Wrote func()  // called before each statement that may change something
	Batch []int64 // the rows at hand: what temp.batch is in SQLite

	ReadOnly bool // what may change something is refused
	// Settings is the statement that makes them in each transaction, behind a pooler. Statements have no names then,
	// and nothing is cancelled.
	Settings string

	dropped    atomic.Bool
	statements map[string]*statement
	own        map[string]*own
	opening    opening
	later      []bound // what is still to be run, before the next statement
	failure    error   // what has ended the present transaction
}

// Connect connects. The errors are pgconn's.
func Connect(ctx context.Context, config *pgconn.Config) (*Conn, error) {
	raw, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	return &Conn{Raw: raw, Wrote: func() {}, statements: map[string]*statement{}, own: map[string]*own{}}, nil
}

// patience bounds the farewell to a server, and a request to cancel.
const patience = 2 * time.Second

// Close says farewell, and closes the connection.
func (c *Conn) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return c.Raw.Close(ctx)
}

// Drop gives the connection up without a farewell, for which a server that stands still would be waited for.
func (c *Conn) Drop() {
	c.dropped.Store(true)
	c.Raw.Conn().Close()
}

// IsOver reports whether the connection is known to be closed, or was given up.
func (c *Conn) IsOver() bool {
	select {
	case <-c.Raw.CleanupDone():
		return true
	default:
		return c.dropped.Load()
	}
}

// Cancel ends what the connection is waiting for, and may end the connection.
func (c *Conn) Cancel() {
	if c.Settings != "" {
		c.Drop()
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_ = c.Raw.CancelRequest(ctx)
}

// Broken reports whether no transaction is open, or an error has ended it.
func (c *Conn) Broken() bool { return c.Raw.IsClosed() || c.Raw.TxStatus() != 'T' }

// Failure returns the error that has ended the present transaction, nil if none has.
func (c *Conn) Failure() error {
	if c.Raw.TxStatus() != 'E' {
		return nil
	}
	return cmp.Or(c.failure, errors.New("an error aborted the transaction"))
}

// inFailed is the server's code of what it says to each statement behind the one that has ended the transaction.
const inFailed = "25P02"

// noted returns the error of a statement, unless that only says that an earlier one has ended the transaction: then it
// is the error of that, which whoever ran it may have had no use for.
func (c *Conn) noted(err error) error {
	var own *pgconn.PgError
	switch {
	case c.Raw.TxStatus() != 'E':
		c.failure = nil
	case c.failure == nil:
		c.failure = err
	case errors.As(err, &own) && own.Code == inFailed:
		return c.failure
	}
	return err
}

// Script runs statements that are separated by semicolons and take no arguments.
func (c *Conn) Script(text string) error {
	if err := c.mayWrite(); err != nil {
		return err
	}
	return c.Do(context.Background(), text)
}

// mayWrite is called before each statement that may change something.
func (c *Conn) mayWrite() error {
	if c.ReadOnly {
		return errors.New("a read-only connection cannot write")
	}
	c.Wrote()
	return nil
}

// Do is Script for statements that change nothing of the engine's.
func (c *Conn) Do(ctx context.Context, text string) error {
	if err := c.RunRest(); err != nil {
		return err
	}
	_, err := c.Ask(ctx, text)
	return err
}

// Ask is Do for statements that return something. What is still to be run is not run before.
func (c *Conn) Ask(ctx context.Context, text string) ([]*pgconn.Result, error) {
	script, more := c.withSettings(text)
	results, err := c.Raw.Exec(ctx, script).ReadAll()
	return results[min(more, len(results)):], c.noted(err)
}
