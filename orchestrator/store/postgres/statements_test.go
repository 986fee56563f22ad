package postgres

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/jackc/pgx/v5"

	"mailroom/orchestrator/orchestratortest/statements"
	"mailroom/orchestrator/store/postgres/postgrestest"
	"mailroom/orchestrator/store/postgres/wire"
)

// sqlites matches statements that run only on SQLite.
var sqlites = regexp.MustCompile(`PRAGMA|pragma_|sqlite_|VACUUM|_inbox"|^BEGIN IMMEDIATE|^UPDATE temp`)

// TestStatements makes a server prepare every statement of the engine.
func TestStatements(t *testing.T) { prepareAll(t, postgrestest.Start(t)) }

func prepareAll(t *testing.T, server string) {
	t.Helper()
	db := openOn(t, server)
	all, err := statements.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range all {
		if sqlites.MatchString(text) {
			continue
		}
		sql, _ := wire.Rewrite(text)
		if _, err := db.Prepare(t.Context(), "", sql); err != nil {
			t.Errorf("%v\n%s\n%s", err, text, sql)
		}
	}
}

// TestAudits makes a server prepare every query that ships with the product.
func TestAudits(t *testing.T) {
	db := open(t)
	folder := filepath.Join("..", "..", "..", "commands", "admin", "inspection", "audits")
	files, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join(folder, file.Name()))
		if err != nil {
			t.Fatal(err)
		}
		sql, _ := wire.Rewrite(string(text))
		if _, err := db.Prepare(t.Context(), "", sql); err != nil {
			t.Errorf("%s: %v", file.Name(), err)
		}
	}
}

// TestFunctions compares the results of functions.sql with those of SQLite's functions.
func TestFunctions(t *testing.T) {
	db := open(t)
	for call, want := range map[string]string{
		`strftime('%Y-%m-%dT%H:%M:%fZ', '2026-02-28T23:59:59.999Z', '+' || 2 || ' seconds')`:                                     "2026-03-01T00:00:01.999Z",
		`strftime('%Y-%m-%dT%H:%M:%fZ', '2026-03-01T00:00:01.000Z', '-1 day')`:                                                   "2026-02-28T00:00:01.000Z",
		`strftime('%Y-%m-%dT%H:%M:%fZ', '2026-03-01 00:00:01')`:                                                                  "2026-03-01T00:00:01.000Z",
		`coalesce(strftime('%Y-%m-%dT%H:%M:%fZ', 'tomorrow'), 'none')`:                                                           "none",
		`coalesce(strftime('%Y-%m-%dT%H:%M:%fZ', '2026-02-30'), 'none')`:                                                         "none",
		`coalesce(strftime('%Y-%m-%dT%H:%M:%fZ', '2026-03-01T00:00:01.000Z', '+' || 9223372036854775807 || ' seconds'), 'none')`: "none",
		`length(strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))::text`:                                                                    "24",
		`json_extract('{"file": "a", "file.directory": "b"}', '$."file.directory"')`:                                             "b",
		`json_extract('{"file": "a"}', '$.file')`:                                                                                "a",
		`json_extract('{"of": {"file": "a"}}', '$.of.file')`:                                                                     "a",
		`json_valid('{')::text`:                             "false",
		`json_valid('{}')::text`:                            "true",
		`"json_object"('a', 'b', 'c', '"d"')::json ->> 'c'`: `"d"`,
		`round((julianday('2026-03-01T00:00:01.500Z') - julianday('2026-02-28T23:59:00.000Z')) * 86400, 3)::text`: "61.500",
		`(SELECT sum(value)::text FROM json_each('[1,20]'))`:                                                      "21",
		`instr('abc', 'c')::text`: "3",
	} {
		var got string
		if err := db.QueryRow(t.Context(), `SELECT `+call).Scan(&got); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", call, got, err, want)
		}
	}
}

// open connects to a server that has the tables.
func open(t *testing.T) *pgx.Conn {
	t.Helper()
	return openOn(t, postgrestest.Start(t))
}

func openOn(t *testing.T, server string) *pgx.Conn {
	t.Helper()
	db, err := pgx.Connect(t.Context(), server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close(context.WithoutCancel(t.Context())) })
	for _, file := range []string{"functions.sql", "schema.sql", "triggers.sql"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.Exec(t.Context(), string(text)); err != nil {
			t.Fatal(file, err)
		}
	}
	return db
}
