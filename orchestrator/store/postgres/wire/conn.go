// Package wire runs the engine's statements, which are written for SQLite, on a connection to a PostgreSQL server.
// It rewrites and prepares them, and sends them together if their results are not needed at once.
package wire

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// Conn is one connection with its prepared statements. Values are sent and received as text, so that a number can be
// used for a text column, as in SQLite. Conn is not safe for concurrent use, except for Cancel, Drop and IsOver.
type Conn struct {
	Raw   *pgconn.PgConn
	Wrote func()  // called before each statement that may change something
	Batch []int64 // the current rows, which SQLite has in temp.batch

	ReadOnly bool // statements that may change something are refused
	// Settings is the statement that makes the settings in each transaction behind a pooler. It is empty without a
	// pooler. With Settings, prepared statements have no names and nothing is cancelled.
	Settings string

	dropped    atomic.Bool
	statements map[string]*statement
	own        map[string]*own
	opening    opening
	later      []bound // statements that were put off, to run before the next one
	failure    error   // the error that ended the current transaction
}

// Connect connects to a server. It returns pgconn's errors.
func Connect(ctx context.Context, config *pgconn.Config) (*Conn, error) {
	raw, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	return &Conn{Raw: raw, Wrote: func() {}, statements: map[string]*statement{}, own: map[string]*own{}}, nil
}

// patience is the time limit for closing a connection in order, and for a cancel request.
const patience = 2 * time.Second

// Close sends the server the end of the session and closes the connection.
func (c *Conn) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return c.Raw.Close(ctx)
}

// Drop closes the connection without a message to the server, since a server that hangs would delay it.
func (c *Conn) Drop() {
	c.dropped.Store(true)
	c.Raw.Conn().Close()
}

// IsOver reports whether the connection is known to be closed, or was dropped.
func (c *Conn) IsOver() bool {
	select {
	case <-c.Raw.CleanupDone():
		return true
	default:
		return c.dropped.Load()
	}
}

// Cancel ends the statement that the connection is waiting for. It may also end the connection.
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

// Failure returns the error that has ended the current transaction, or nil.
func (c *Conn) Failure() error {
	if c.Raw.TxStatus() != 'E' {
		return nil
	}
	return cmp.Or(c.failure, errors.New("an error aborted the transaction"))
}

// inFailed is the server's error code for each statement after the one that has ended the transaction.
const inFailed = "25P02"

// noted returns the error of a statement. If the statement failed only because an earlier one has ended the
// transaction, noted returns the error of the earlier statement, which its caller may have ignored.
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

// Do runs a script of statements that change none of the engine's data, after those that were put off.
func (c *Conn) Do(ctx context.Context, text string) error {
	if err := c.RunRest(); err != nil {
		return err
	}
	_, err := c.Ask(ctx, text)
	return err
}

// Ask runs statements and returns their results. It does not run the statements that were put off.
func (c *Conn) Ask(ctx context.Context, text string) ([]*pgconn.Result, error) {
	script, more := c.withSettings(text)
	results, err := c.Raw.Exec(ctx, script).ReadAll()
	return results[min(more, len(results)):], c.noted(err)
}
