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

// Place returns the address of a database for a test: of a file that is not there yet, or of a database that is, on the
// server which postgrestest.Variable names, as `go run ./cmd/tests -postgres PACKAGE` does.
func Place(t testing.TB) string {
	t.Helper()
	return PlaceAt(t, filepath.Join(t.TempDir(), "mailroom.db"))
}

// PlaceAt is Place where the file, if it is one, has a path of the test's own.
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

// makeTemplate makes the database at an address of which those of tests are copies, since that is ten times faster than
// to make each.
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

// functions are SQLite's that tests use, and not the product.
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

// OfAFile leaves a test out where databases are on a server, since it is about a file.
func OfAFile(t testing.TB, why string) {
	t.Helper()
	if os.Getenv(postgrestest.Variable) != "" {
		t.Skip("not on a server: " + why)
	}
}

// Placed completes the options for the database at o.Path: for one on a server, with a folder for this machine's files if
// they have none.
func Placed(o ledger.Options) ledger.Options {
	if o.State == "" && postgres.IsAddress(o.Path) {
		o.State = stateOf(o.Path)
	}
	return o
}

// stateOf is the folder for files that belong to a database on a server, the same in all processes of this user's tests.
func stateOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		panic(err)
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("mailroom-%d-%s", os.Getuid(), path.Base(u.Path)))
}

// OnServer reports whether the database is on a server, where its tables are the same, but no column takes a value of
// another type.
func (f *Fixture) OnServer() bool { return postgres.IsAddress(f.Path) }

// Statement returns the SQL statement in what somebody is told to do, which is a command on a file of SQLite's.
func Statement(fix string) string {
	for _, quote := range []string{`"`, "`"} {
		if _, behind, found := strings.Cut(fix, quote); found {
			statement, _, _ := strings.Cut(behind, quote)
			return statement
		}
	}
	return ""
}
