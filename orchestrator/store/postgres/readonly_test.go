package postgres_test

import (
	"strings"
	"testing"

	"mailroom/orchestrator/store"
	"mailroom/orchestrator/store/postgres/postgrestest"
)

// Readers cannot write, as on SQLite.
func TestReadersCannotWrite(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t, postgrestest.Careless)
	cannotWrite(t, postgrestest.Place(server))
	cannotWrite(t, postgrestest.Place(postgrestest.Pool(t, server, "transaction").Past(server)))
}

func cannotWrite(t *testing.T, address string) {
	t.Helper()
	e := made(t, address, "a")
	for name, read := range map[string]func(func(*store.Conn) error) error{
		"look": func(fn func(*store.Conn) error) error { return e.Store.Look(t.Context(), fn) },
		"read": func(fn func(*store.Conn) error) error { return e.Store.Read(t.Context(), fn) },
	} {
		err := read(func(c *store.Conn) error {
			_, err := c.Exec(`UPDATE settings SET value = 'x'`)
			return err
		})
		if err == nil || !strings.Contains(err.Error(), "cannot write") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := e.Store.Ready(t.Context()); err != nil {
		t.Errorf("the database can be written: %v", err)
	}
}
