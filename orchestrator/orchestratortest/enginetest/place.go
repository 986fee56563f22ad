package enginetest

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/store/postgres"
	"mailroom/orchestrator/store/postgres/postgrestest"
)

// Place returns the address of a database that is not there yet: a file's path, or that of a schema on the server which
// postgrestest.Variable names, as `go run ./cmd/tests -postgres PACKAGE` does.
func Place(t testing.TB) string {
	t.Helper()
	server := os.Getenv(postgrestest.Variable)
	if server == "" {
		return filepath.Join(t.TempDir(), "mailroom.db")
	}
	place := postgrestest.Place(server)
	schema := schemaOf(place)
	run := func(statement string) {
		if _, err := postgrestest.SQL(context.Background(), place, statement); err != nil {
			t.Errorf("%s: %v", statement, err)
		}
	}
	run("CREATE SCHEMA " + schema + ";" + aggregates)
	t.Cleanup(func() {
		run("SET client_min_messages = warning; DROP SCHEMA " + schema + " CASCADE")
		if err := os.RemoveAll(stateOf(place)); err != nil {
			t.Error(err)
		}
	})
	return place
}

// aggregates are SQLite's that tests use, and not the product.
const aggregates = `
CREATE FUNCTION group_concat_next(state text, value anyelement) RETURNS text IMMUTABLE LANGUAGE sql AS
	$$ SELECT CASE WHEN value IS NULL THEN state ELSE coalesce(state || ',', '') || value::text END $$;
CREATE FUNCTION group_concat_next(state text, value anyelement, separator text) RETURNS text IMMUTABLE LANGUAGE sql AS
	$$ SELECT CASE WHEN value IS NULL THEN state ELSE coalesce(state || separator, '') || value::text END $$;
CREATE AGGREGATE group_concat(anyelement) (SFUNC = group_concat_next, STYPE = text);
CREATE AGGREGATE group_concat(anyelement, text) (SFUNC = group_concat_next, STYPE = text);`

// OfAFile leaves a test out where databases are on a server, since it is about a file.
func OfAFile(t testing.TB, why string) {
	t.Helper()
	if os.Getenv(postgrestest.Variable) != "" {
		t.Skip("not on a server: " + why)
	}
}

// placed completes the options for the database at o.Path: for one on a server, with a folder for this machine's files.
func placed(o ledger.Options) ledger.Options {
	if postgres.IsAddress(o.Path) {
		o.State = stateOf(o.Path)
	}
	return o
}

func schemaOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		panic(err)
	}
	return u.Query().Get("search_path")
}

// stateOf is the folder for files that belong to a database on a server, the same in all processes of a test.
func stateOf(address string) string {
	return filepath.Join(os.TempDir(), "mailroom-"+schemaOf(address))
}
