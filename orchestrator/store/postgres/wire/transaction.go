package wire

import (
	"context"
	"database/sql/driver"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"
)

// Call is a call of a statement in PostgreSQL's syntax, which is not rewritten. The server must be able to infer the
// types of its parameters.
type Call struct {
	Text   string
	Values [][]byte
}

// own is the statement of a Call. It is prepared when a connection uses it for the second time, since it is then
// likely to be used often, and preparing costs a round trip.
type own struct {
	name     string
	prepared bool
}

// Begin begins a transaction and runs calls, in one round trip, and returns the results of the calls.
func (c *Conn) Begin(ctx context.Context, calls ...Call) ([]*pgconn.Result, error) {
	c.Batch, c.later = c.Batch[:0], c.later[:0]
	c.opening.here, c.opening.answer = false, nil
	all := []Call{{Text: "BEGIN"}}
	if c.Settings != "" {
		all = append(all, Call{Text: c.Settings})
	}
	all = append(all, calls...)
	if err := c.ready(ctx, all); err != nil {
		return nil, err
	}
	results, err := c.runAll(ctx, func(p *pgconn.Pipeline) {
		c.sendCalls(p, all)
		c.sendOpening(p)
	})
	if err != nil {
		return nil, err
	}
	c.opening.here = true
	if len(results) > len(all) {
		c.opening.answer = results[len(all)]
	}
	return results[len(all)-len(calls) : len(all)], nil
}

// Commit runs the statements that were put off, then calls, and commits, in one round trip.
func (c *Conn) Commit(calls ...Call) error {
	calls = append(calls, Call{Text: "COMMIT"})
	if err := c.ready(context.Background(), calls); err != nil {
		return err
	}
	_, err := c.runAll(context.Background(), func(p *pgconn.Pipeline) { c.sendCalls(p, calls) })
	return err
}

// Rollback rolls the transaction back, without running the statements that were put off.
func (c *Conn) Rollback() error {
	c.later = c.later[:0]
	return c.Do(context.Background(), "ROLLBACK")
}

// ready prepares the statements of calls that are about to be sent, if that pays. No pipeline may be in progress.
func (c *Conn) ready(ctx context.Context, calls []Call) error {
	if c.Settings != "" {
		return nil
	}
	for _, call := range calls {
		o := c.own[call.Text]
		switch {
		case o == nil:
			c.own[call.Text] = &own{name: "own" + strconv.Itoa(len(c.own))}
		case !o.prepared:
			if _, err := c.Raw.Prepare(ctx, o.name, call.Text, nil); err != nil {
				return c.noted(err)
			}
			o.prepared = true
		}
	}
	return nil
}

func (c *Conn) sendCalls(p *pgconn.Pipeline, calls []Call) {
	for _, call := range calls {
		if o := c.own[call.Text]; o != nil && o.prepared {
			p.SendQueryPrepared(o.name, call.Values, nil, nil)
		} else {
			p.SendQueryParams(call.Text, call.Values, nil, nil, nil)
		}
	}
}

// opening is the query with which a transaction begins: the ledger begins each transaction with the same query. The
// query is sent together with the BEGIN of the next transaction, which saves a round trip.
type opening struct {
	text   string         // "" if there is none
	here   bool           // no query was run in this transaction yet
	answer *pgconn.Result // result of the query in this transaction; nil once it is used
}

func (c *Conn) sendOpening(p *pgconn.Pipeline) {
	if s := c.statements[c.opening.text]; s != nil && s.Name != "" && s.does == leaves && !s.writes {
		p.SendQueryPrepared(s.Name, nil, nil, nil)
	}
}

// ahead returns the result of the first query of a transaction if the query was sent ahead. It also records the
// query to send ahead the next time.
func (c *Conn) ahead(text string, args []driver.NamedValue) (*pgconn.Result, *statement) {
	if !c.opening.here {
		return nil, nil
	}
	answer := c.opening.answer
	c.opening.here, c.opening.answer = false, nil
	if text == c.opening.text {
		return answer, c.statements[text]
	}
	if c.opening.text = ""; len(args) == 0 {
		c.opening.text = text
	}
	return nil, nil
}
