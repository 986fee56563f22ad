package enginetest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/router"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/store/postgres"
	"mailroom/orchestrator/store/postgres/postgrestest"
)

// Place returns the address of a database for a test: a file that does not exist yet, or an existing database on the
// server in the environment variable postgrestest.Variable, which `go run ./cmd/tests -postgres PACKAGE` sets.
func Place(t testing.TB) string {
	t.Helper()
	return PlaceAt(t, filepath.Join(t.TempDir(), "mailroom.db"))
}

// PlaceAt returns the address of a database for a test: the given file, which does not exist yet, or an existing
// database on the server in postgrestest.Variable.
func PlaceAt(t testing.TB, file string) string {
	t.Helper()
	server := os.Getenv(postgrestest.Variable)
	if server == "" {
		return file
	}
	place, drop, err := postgrestest.Copy(t.Context(), server, makeTemplate)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(drop(), os.RemoveAll(stateOf(place))); err != nil {
			t.Error(err)
		}
	})
	return place
}

// makeTemplate creates the template database at an address. The databases of tests are copies of it, because a copy
// is ten times faster than a new database.
func makeTemplate(ctx context.Context, address string) error {
	e, err := router.Open(ctx,
		Placed(ledger.Options{Path: address, Log: slog.New(slog.DiscardHandler), Bell: store.NewLocalBell()}))
	if err != nil {
		return err
	}
	_, err = e.Store.Create()
	if err = errors.Join(err, e.Close(), os.RemoveAll(stateOf(address))); err == nil {
		_, err = postgrestest.SQL(ctx, address, functions)
	}
	return err
}

// functions defines SQLite functions that tests use and the product does not.
const functions = `
CREATE FUNCTION group_concat_next(state text, value anyelement) RETURNS text IMMUTABLE LANGUAGE sql AS
	$$ SELECT CASE WHEN value IS NULL THEN state ELSE coalesce(state || ',', '') || value::text END $$;
CREATE FUNCTION group_concat_next(state text, value anyelement, separator text) RETURNS text IMMUTABLE LANGUAGE sql AS
	$$ SELECT CASE WHEN value IS NULL THEN state ELSE coalesce(state || separator, '') || value::text END $$;
CREATE AGGREGATE group_concat(anyelement) (SFUNC = group_concat_next, STYPE = text);
CREATE AGGREGATE group_concat(anyelement, text) (SFUNC = group_concat_next, STYPE = text);
CREATE FUNCTION "json_array"(VARIADIC items text[]) RETURNS text IMMUTABLE LANGUAGE sql AS $$ SELECT array_to_json(items)::text $$;
CREATE FUNCTION json_array_length(list text) RETURNS integer IMMUTABLE LANGUAGE sql AS $$ SELECT pg_catalog.json_array_length(list::json) $$;
CREATE FUNCTION hex(content text) RETURNS text IMMUTABLE LANGUAGE sql AS $$ SELECT upper(encode(convert_to(content,
	'UTF8'), 'hex')) $$;
CREATE FUNCTION iif(condition boolean, yes anyelement, no anyelement) RETURNS anyelement IMMUTABLE LANGUAGE sql AS
	$$ SELECT CASE WHEN condition THEN yes ELSE no END $$;
CREATE FUNCTION max(a bigint, b bigint) RETURNS bigint IMMUTABLE LANGUAGE sql AS $$ SELECT greatest(a, b) $$;
CREATE FUNCTION member(document text,
	name text) RETURNS text IMMUTABLE LANGUAGE sql AS $$ SELECT document::json ->> name $$;
CREATE OPERATOR ->> (FUNCTION = member, LEFTARG = text, RIGHTARG = text);`

// OfAFile skips a test about database files if databases are on a server.
func OfAFile(t testing.TB, why string) {
	t.Helper()
	if os.Getenv(postgrestest.Variable) != "" {
		t.Skip("not on a server: " + why)
	}
}

// Placed completes the options for the database at o.Path. If it is on a server and o.State is empty, Placed sets a
// folder for the files of this machine.
func Placed(o ledger.Options) ledger.Options {
	if o.State == "" && postgres.IsAddress(o.Path) {
		o.State = stateOf(o.Path)
	}
	return o
}

// stateOf returns the folder for the files of a database on a server. It is the same in all test processes of this
// user.
func stateOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		panic(err)
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("mailroom-%d-%s", os.Getuid(), path.Base(u.Path)))
}

// OnServer reports whether the database is on a server. The tables are the same there, but no column accepts a value
// of another type.
func (f *Fixture) OnServer() bool { return postgres.IsAddress(f.Path) }

// Statement returns the SQL statement in the advice to a user, which is a shell command for an SQLite file.
func Statement(fix string) string {
	for _, quote := range []string{`"`, "`"} {
		if _, behind, found := strings.Cut(fix, quote); found {
			statement, _, _ := strings.Cut(behind, quote)
			return statement
		}
	}
	return ""
}
