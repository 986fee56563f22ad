package postgres

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// A pooler such as pgbouncer stands between clients and servers, and gives each transaction any of its own connections to a server.
// It refuses settings at the beginning of a connection, by which it is recognized, and what is set or prepared on one is not there on
// the next. Behind one, everything is therefore run in a transaction that begins with its settings, and no statement has a name.

// refusesSettings reports whether an error in connecting is a pooler's.
func refusesSettings(err error) bool {
	var own *pgconn.PgError
	return errors.As(err, &own) && strings.Contains(own.Message, "unsupported startup parameter")
}

// taken are the settings that poolers take at the beginning.
var taken = []string{"application_name", "client_encoding"}

// connectAsTaken connects, and leaves out the settings if they are refused.
func (s *Store) connectAsTaken(ctx context.Context, config *pgconn.Config) (*conn, error) {
	past := s.direct != s.config && config.Host == s.direct.Host && config.Port == s.direct.Port
	if !s.pooled.Load() || past {
		c, err := connect(ctx, config, s.version())
		if !refusesSettings(err) {
			return c, err
		}
		s.pooled.Store(true)
	}
	bare := config.Copy()
	maps.DeleteFunc(bare.RuntimeParams, func(name, _ string) bool { return !slices.Contains(taken, name) })
	c, err := connect(ctx, bare, s.version())
	if err == nil {
		c.settings = settingsOf(config)
	}
	return c, err
}

// settingsOf is the statement that makes the settings of a connection for one transaction.
func settingsOf(config *pgconn.Config) string {
	var calls []string
	for _, name := range slices.Sorted(maps.Keys(config.RuntimeParams)) {
		if !slices.Contains(taken, name) {
			calls = append(calls, "set_config('"+name+"', '"+strings.ReplaceAll(config.RuntimeParams[name], "'", "''")+"', true)")
		}
	}
	return "SELECT " + strings.Join(calls, ", ")
}

// withSettings returns a script that makes the settings, if it is not the rest of a transaction; around says that it has a transaction
// around it now.
func (c *conn) withSettings(script string) (whole string, around bool) {
	if c.settings == "" || c.raw.TxStatus() != 'I' {
		return script, false
	}
	first, rest, _ := strings.Cut(script, ";")
	if strings.HasPrefix(first, "BEGIN") {
		return first + "; " + c.settings + "; " + rest, false
	}
	return "BEGIN; " + c.settings + "; " + script + "; COMMIT", true
}

// within runs f in a transaction with the settings, if they are needed and there is none.
func (c *conn) within(f func() error) error {
	if c.settings == "" || c.raw.TxStatus() != 'I' {
		return f()
	}
	if err := c.script(context.Background(), "BEGIN"); err != nil {
		return err
	}
	err := f()
	end := "COMMIT"
	if err != nil {
		end = "ROLLBACK"
	}
	if ended := c.script(context.Background(), end); err == nil {
		err = ended
	}
	return err
}
