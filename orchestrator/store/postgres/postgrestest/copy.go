package postgrestest

import (
	"context"
	"crypto/rand"
	"errors"
	"net/url"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"
)

// template is the name of the database that Copy copies.
const template = "template_mailroom"

// copies holds the connections on which this process copies and drops databases, by the address of the server. There
// is one for each server, since a server makes only one copy at a time.
var copies struct {
	sync.Mutex
	at map[string]*pgconn.PgConn
}

// Copy creates a database on a server as a copy of a template. If no process has created the template yet, fill
// fills it, given its address. drop removes the copy even if clients are connected to it. The administration of the
// server bypasses a pooler, whose connections would prevent the copying.
func Copy(ctx context.Context, server string, fill func(ctx context.Context, address string) error) (address string,
	drop func() error, err error) {
	copies.Lock()
	defer copies.Unlock()
	if copies.at[server] == nil {
		c, err := connectToTemplate(ctx, Direct(server), fill)
		if err != nil {
			return "", nil, err
		}
		if copies.at == nil {
			copies.at = map[string]*pgconn.PgConn{}
		}
		copies.at[server] = c
	}
	c := copies.at[server]
	name := "t" + strings.ToLower(rand.Text())
	statement := "CREATE DATABASE " + name + " TEMPLATE " + template
	// Version 14 has no other strategy.
	if version := c.ParameterStatus("server_version"); !strings.HasPrefix(version, "14.") {
		statement += " STRATEGY file_copy"
	}
	if err := c.Exec(ctx, statement).Close(); err != nil {
		return "", nil, err
	}
	return inDatabase(server, name), func() error {
		copies.Lock()
		defer copies.Unlock()
		return c.Exec(context.WithoutCancel(ctx), "DROP DATABASE "+name+" WITH (FORCE)").Close()
	}, nil
}

// connectToTemplate connects to a server, and creates the template there unless another process has.
func connectToTemplate(ctx context.Context, server string,
	fill func(ctx context.Context, address string) error) (*pgconn.PgConn, error) {
	c, err := pgconn.Connect(ctx, server)
	if err != nil {
		return nil, err
	}
	err = c.Exec(ctx, "SELECT pg_advisory_lock(1)").Close()
	if err == nil {
		err = makeTemplate(ctx, c, server, fill)
	}
	if err = errors.Join(err, c.Exec(ctx, "SELECT pg_advisory_unlock(1)").Close()); err != nil {
		return nil, errors.Join(err, c.Close(ctx))
	}
	return c, nil
}

func makeTemplate(ctx context.Context, c *pgconn.PgConn, server string,
	fill func(ctx context.Context, address string) error) error {
	found, err := c.Exec(ctx, "SELECT 1 FROM pg_database WHERE datname = '"+template+"'").ReadAll()
	if err != nil || len(found[0].Rows) > 0 {
		return err
	}
	const begun = template + "_begun" // an unfinished template of a killed process has another name
	for _, statement := range []string{"DROP DATABASE IF EXISTS " + begun + " WITH (FORCE)",
		"CREATE DATABASE " + begun} {
		if err := c.Exec(ctx, statement).Close(); err != nil {
			return err
		}
	}
	if err := fill(ctx, inDatabase(server, begun)); err != nil {
		return err
	}
	return c.Exec(ctx, "ALTER DATABASE "+begun+" RENAME TO "+template).Close()
}

// inDatabase returns the address of a Mailroom database in another database of a server.
func inDatabase(server, name string) string {
	address, err := url.Parse(server)
	if err != nil {
		panic(err)
	}
	query := address.Query()
	query.Set("search_path", "mailroom") // also for programs that do not use the engine
	if past := query.Get("direct"); past != "" {
		query.Set("direct", inDatabase(past, name))
	}
	address.Path, address.RawQuery = "/"+name, query.Encode()
	return address.String()
}
