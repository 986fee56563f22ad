package postgrestest

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// Session is a connection on which a test runs transactions of its own.
type Session struct {
	t testing.TB
	c *pgconn.PgConn
}

// Connect connects to a server until the test ends, past a pooler.
func Connect(t testing.TB, address string) *Session {
	t.Helper()
	c, err := pgconn.Connect(t.Context(), Direct(address))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(context.WithoutCancel(t.Context())) })
	return &Session{t, c}
}

// Run runs statements that are separated by semicolons.
func (s *Session) Run(statements string) {
	s.t.Helper()
	if _, err := s.c.Exec(s.t.Context(), statements).ReadAll(); err != nil {
		s.t.Error(err)
	}
}

// Begin begins a transaction as the store does, beside others.
func (s *Session) Begin() {
	s.t.Helper()
	s.Run("BEGIN; SELECT hold_floors(); SELECT pg_current_xact_id()")
}

// PID is the server's process.
func (s *Session) PID() uint32 { return s.c.PID() }
