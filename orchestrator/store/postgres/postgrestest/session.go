package postgrestest

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// Session is a connection on which a test runs its own transactions.
type Session struct {
	t testing.TB
	c *pgconn.PgConn
}

// Connect connects to a server, past a pooler, until the end of the test.
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

// Begin begins a transaction like the store does, with the locks that other transactions also hold.
func (s *Session) Begin() {
	s.t.Helper()
	s.Run("BEGIN; SELECT hold_floors(); SELECT pg_current_xact_id()")
}

// PID returns the id of the server's process.
func (s *Session) PID() uint32 { return s.c.PID() }
