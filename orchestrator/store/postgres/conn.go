package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"mailroom/orchestrator/store/postgres/wire"
)

// conn is a connection of a store.
type conn struct {
	*wire.Conn
	knows int       // the version of the tables that this program supports
	used  time.Time // when the connection was last used for reading
}

func connectWith(s *Store, ctx context.Context, config *pgconn.Config) (*conn, error) {
	c, err := wire.Connect(ctx, config)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, knows: s.version()}, nil
}
