package postgres

import (
	"context"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"
)

// own is a statement of this package, in the server's words. It is prepared when a connection comes to it for the second time: then it will
// come often, and preparing is a round trip.
type own struct {
	name     string
	prepared bool
}

// ownCall is a call of one. Its parameters need types that the server can tell by itself.
type ownCall struct {
	text   string
	values [][]byte
}

// ready prepares the statements of calls that are about to be sent, as far as that pays. No pipeline may be under way.
func (c *conn) ready(ctx context.Context, calls ...ownCall) error {
	if c.settings != "" {
		return nil
	}
	for _, call := range calls {
		o := c.owns[call.text]
		switch {
		case o == nil:
			c.owns[call.text] = &own{name: "own" + strconv.Itoa(len(c.owns))}
		case !o.prepared:
			if _, err := c.raw.Prepare(ctx, o.name, call.text, nil); err != nil {
				return err
			}
			o.prepared = true
		}
	}
	return nil
}

// sendOwn sends calls in a pipeline.
func (c *conn) sendOwn(p *pgconn.Pipeline, calls ...ownCall) {
	for _, call := range calls {
		if o := c.owns[call.text]; o != nil && o.prepared {
			p.SendQueryPrepared(o.name, call.values, nil, nil)
		} else {
			p.SendQueryParams(call.text, call.values, nil, nil, nil)
		}
	}
}
