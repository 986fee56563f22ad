package postgres

import (
	"context"
	"crypto/rand"
	_ "embed"
	"errors"
	"strconv"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/store/postgres/pulse"
)

//go:embed functions.sql
var functionsSQL string

//go:embed schema.sql
var schemaSQL string

//go:embed triggers.sql
var triggersSQL string

//go:embed commits.sql
var commitsSQL string

// Create creates the database in its own schema if it does not exist yet, and reports whether it did.
func (s *Store) Create() (created bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), max(s.busy, time.Minute))
	defer cancel()
	for tries := 0; ; tries++ {
		created, err := s.create(ctx)
		if !isLost(err) || ctx.Err() != nil || tries >= maxTries {
			return created, s.Explain(err)
		}
	}
}

func (s *Store) create(ctx context.Context) (created bool, err error) {
	raw, _, err := s.reach(ctx, s.direct)
	if err != nil {
		return false, err
	}
	defer raw.Close()
	c := &store.Conn{Driver: raw}
	if err := suits(s, c); err != nil {
		return false, err
	}
	if err := raw.Do(ctx, "BEGIN; SET LOCAL lock_timeout = 0; SELECT "+s.lock(making)); err != nil {
		return false, err
	}
	there, err := hasTables(c)
	if err == nil && !there {
		err = makeTables(s, c)
	}
	if err == nil {
		err = raw.Do(ctx, grants+"; COMMIT")
	}
	if err != nil {
		return false, err
	}
	s.found.Store(true)
	if err := setRole(s, ctx, raw); err != nil {
		s.log.Warn("cannot store the settings of this user; each connection sets its own", "error", err)
	}
	return !there, nil
}

// hasTables reports whether the database exists.
func hasTables(c *store.Conn) (bool, error) {
	n, err := c.Number(`SELECT count(*) FROM pg_catalog.pg_class WHERE oid = to_regclass('settings')`)
	return n > 0, err
}

func makeTables(s *Store, c *store.Conn) error {
	if err := encodes(s, c); err != nil {
		return err
	}
	if err := makeSchema(s, c); err != nil {
		return err
	}
	for _, script := range []string{functionsSQL, schemaSQL, triggersSQL, pulse.Schema, commitsSQL} {
		if err := c.Script(script); err != nil {
			return err
		}
	}
	if err := store.Seed(c); err != nil {
		return err
	}
	id := rand.Text()
	for key, value := range map[string]string{store.DatabaseID: id, store.ConfigVersion: rand.Text(),
		versionKey: strconv.Itoa(s.version())} {
		if err := c.Run(store.StoreSetting, key, value, orchestrator.Stamp(time.Now())); err != nil {
			return err
		}
	}
	if s.made != nil {
		s.made(id)
	}
	return nil
}

// open connects to an existing database, and upgrades its tables to the version of this program if necessary.
func (s *Store) open(ctx context.Context) (*conn, error) {
	for tries := 0; ; tries++ {
		c, said, err := s.reach(ctx, s.config)
		if err != nil {
			return nil, err
		}
		c, err = s.enter(ctx, c, said)
		if !errors.Is(err, errBehind) || tries >= maxTries {
			return c, err
		}
		if err := s.upgrade(ctx); err != nil {
			return nil, err
		}
	}
}

// isShut reports whether the schema exists but this user must not use it.
func isShut(c *conn, ctx context.Context, schema string) (bool, error) {
	results, err := c.Ask(ctx, `SELECT 1 FROM pg_catalog.pg_namespace WHERE nspname = '`+schema+
		`' AND NOT has_schema_privilege(oid, 'USAGE')`)
	return err == nil && len(results[0].Rows) > 0, err
}

// enter returns the connection if the greeting shows that the database exists and has the version of this program.
func (s *Store) enter(ctx context.Context, c *conn, said greeting) (*conn, error) {
	err := said.failure
	if code := codeOf(err); code == undefinedTable || code == undefinedSchema {
		err = noDatabase(s)
		if shut, asked := isShut(c, ctx, s.schema); asked == nil && shut {
			err = mayNotEnter(s)
		}
	}
	if err == nil {
		err = admit(said.versions, c.knows)
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	id := said.versions[store.DatabaseID]
	s.id.Store(&id)
	s.found.Store(true)
	return c, nil
}
