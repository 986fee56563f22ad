package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
)

// A pooler such as pgbouncer connects clients to servers, and may give each transaction another of its own
// connections to a server. Settings, prepared statements, locks and LISTEN that are made outside of a transaction
// are missing in the next one, and may affect other clients. Only transactions are therefore sent through a pooler,
// whatever its mode: each begins with its settings, and no statement has a name. Operations that need a connection
// of their own, to receive notifications and to show that the process is alive, connect past the pooler, or are not
// used.

// taken lists the settings that poolers accept when a connection begins. Poolers refuse or ignore other settings.
var taken = []string{"application_name", "client_encoding"}

// refusesSettings reports whether an error in connecting is that of a pooler that refuses a setting.
func refusesSettings(err error) bool {
	var own *pgconn.PgError
	return errors.As(err, &own) && strings.Contains(own.Message, "unsupported startup parameter")
}

// connectAsTaken connects with all settings, or to a pooler without them.
func (s *Store) connectAsTaken(ctx context.Context, config *pgconn.Config) (*conn, greeting, error) {
	config = withPassword(config, s.dsn)
	past := isPast(s, config)
	if !s.pooled.Load() || past {
		c, err := connectWith(s, ctx, config)
		var said greeting
		if err == nil {
			said, err = greet(s, ctx, c, config)
		}
		if said.own || c != nil && codeOf(err) != "" && !isLost(err) {
			// A server that does not support these queries is not a pooler, see suits.
			return c, said, nil
		}
		if c != nil {
			c.Drop()
		}
		if err != nil && !refusesSettings(err) {
			return nil, greeting{}, err
		}
		if !past {
			s.pooled.Store(true)
		}
	}
	return s.connectToPooler(ctx, config)
}

// isPast reports whether a configuration leads past a pooler.
func isPast(s *Store, config *pgconn.Config) bool {
	is := func(h host) bool { return h[0].Host == config.Host && h[0].Port == config.Port }
	return slices.ContainsFunc(hostsOf(s.direct), is) && !slices.ContainsFunc(s.hosts, is)
}

// errAstray means that the way past a pooler leads to another database, whose notifications are for others.
var errAstray = &orchestrator.Error{Code: orchestrator.Unavailable,
	Message: "the parameter `direct` in the address of the database points to another database", Hint: namePast}

// connectPast connects past a pooler if the address contains such a way, and checks that it leads to the same
// database.
func (s *Store) connectPast(ctx context.Context, config *pgconn.Config) (*conn, greeting, error) {
	c, said, err := s.connect(ctx, config)
	if err != nil || s.direct == s.config {
		return c, said, err
	}
	if id, err := s.databaseID(); err != nil || said.versions[store.DatabaseID] == id {
		return c, said, nil
	}
	c.Close()
	return nil, greeting{}, errAstray
}

// greeting is the first answer of a server.
type greeting struct {
	own      bool              // the server process is the one that accepted the connection; false behind a pooler
	timeline int64             // of a server that takes writes, if the primary is asked for
	versions map[string]string // see readVersions
	failure  error             // error of readVersions
}

// greet requests the greeting, and records the time of the server.
func greet(s *Store, ctx context.Context, c *conn, config *pgconn.Config) (said greeting, err error) {
	first := fmt.Sprintf(`SELECT pg_backend_pid() = %d, `+readClock, c.Raw.PID())
	if config.ValidateConnect != nil {
		first += `, CASE WHEN NOT pg_is_in_recovery() THEN ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::bigint END`
	}
	results, err := c.Ask(ctx, first+"; "+readVersions)
	said.failure = err
	if len(results) == 0 || len(results[0].Rows) == 0 {
		return said, err
	}
	row := results[0].Rows[0]
	s.clock.set(row[1])
	if said.own = string(row[0]) == "t"; len(row) > 2 && row[2] != nil {
		said.timeline, _ = strconv.ParseInt(string(row[2]), 10, 64)
	}
	if err == nil {
		said.versions = map[string]string{}
		for _, row := range results[1].Rows {
			said.versions[string(row[0])] = string(row[1])
		}
	}
	return said, nil
}

// connectToPooler connects without the settings.
//
// Statements on this connection are never cancelled. A cancel request is a separate connection. pgx closes that
// connection if the answer has arrived meanwhile, which makes pgbouncer crash (1.18; its issues 801 and 822). The
// connection of the statement is closed instead; pgbouncer then closes the connection to the server, which ends the
// transaction.
func (s *Store) connectToPooler(ctx context.Context, config *pgconn.Config) (*conn, greeting, error) {
	bare := config.Copy()
	maps.DeleteFunc(bare.RuntimeParams, func(name, _ string) bool { return !slices.Contains(taken, name) })
	var connected atomic.Bool
	bare.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if connected.Load() {
			return nil, errors.New("a query that runs through a pooler cannot be canceled")
		}
		return config.DialFunc(ctx, network, address)
	}
	bare.BuildContextWatcherHandler = func(c *pgconn.PgConn) ctxwatch.Handler {
		return &pgconn.DeadlineContextWatcherHandler{Conn: c.Conn()}
	}
	c, err := connectWith(s, ctx, bare)
	if err != nil {
		return nil, greeting{}, err
	}
	connected.Store(true)
	c.Settings = settingsOf(config)
	said, err := greet(s, ctx, c, config)
	if err != nil {
		c.Drop()
		return nil, greeting{}, err
	}
	return c, said, nil
}

// refusesTransactions reports whether an error is that of a pooler that runs each statement as a transaction.
func refusesTransactions(err error) bool {
	var own *pgconn.PgError
	return errors.As(err, &own) && strings.Contains(own.Message, "statement pooling mode")
}

// settingsOf returns the statement that makes the settings of a connection for one transaction.
func settingsOf(config *pgconn.Config) string {
	var calls []string
	for _, name := range slices.Sorted(maps.Keys(config.RuntimeParams)) {
		if !slices.Contains(taken, name) {
			calls = append(calls, "set_config('"+name+"', '"+strings.ReplaceAll(config.RuntimeParams[name], "'", "''")+
				"', true)")
		}
	}
	return "SELECT " + strings.Join(calls, ", ")
}
