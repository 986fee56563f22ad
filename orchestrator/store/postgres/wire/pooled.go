package wire

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// setsFirst reports whether the next statement must make the settings first, because it begins a transaction behind
// a pooler. Statements that are sent together also form a transaction.
func (c *Conn) setsFirst() bool { return c.Settings != "" && c.Raw.TxStatus() == 'I' }

// withSettings returns a script that makes the settings first if necessary, and the number of additional results.
func (c *Conn) withSettings(script string) (whole string, more int) {
	if !c.setsFirst() {
		return script, 0
	}
	if first, rest, _ := strings.Cut(script, ";"); strings.HasPrefix(first, "BEGIN") {
		return first + "; " + c.Settings + "; " + rest, 0
	}
	return c.Settings + "; " + script, 1
}

// name returns the name under which a statement is prepared. Behind a pooler it is empty.
func (c *Conn) name(name string) string {
	if c.Settings != "" {
		return ""
	}
	return name
}

// describe prepares a statement.
func (c *Conn) describe(name, sql string) (description *pgconn.StatementDescription, err error) {
	if !c.setsFirst() {
		return c.Raw.Prepare(context.Background(), c.name(name), sql, nil)
	}
	p := c.Raw.StartPipeline(context.Background())
	p.SendQueryParams(c.Settings, nil, nil, nil, nil)
	p.SendPrepare("", sql, nil)
	err = p.Sync()
	for err == nil {
		answer, failure := p.GetResults()
		if answer == nil || failure != nil {
			err = failure
			break
		}
		switch a := answer.(type) {
		case *pgconn.ResultReader:
			_, err = a.Close()
		case *pgconn.StatementDescription:
			description, a.SQL = a, sql
		}
	}
	return description, errors.Join(err, p.Close())
}
