package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/store/postgres"
	"mailroom/orchestrator/store/postgres/postgrestest"
)

// at opens a store, as one process does, until the test ends.
func at(t *testing.T, address string) *postgres.Store {
	t.Helper()
	nothing := func(*store.Transaction) error { return nil }
	s, err := postgres.Open(postgres.Options{DSN: address, Log: slog.New(slog.DiscardHandler),
		BusyTimeout: 10 * time.Second, Begin: nothing, End: nothing})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// initAt opens a store, and creates the database if it does not exist.
func initAt(t *testing.T, address string) *postgres.Store {
	t.Helper()
	s := at(t, address)
	if _, err := s.Create(); err != nil {
		t.Fatal(err)
	}
	return s
}

// finds checks the place like a new process, and compares the findings: CHECK LEVEL PART-OF-THE-TEXT. All other
// findings must be ok.
func finds(t *testing.T, address string, findings ...string) {
	t.Helper()
	found := map[string]string{}
	at(t, address).CheckPlace(t.Context(), func(check, level, says, do string) {
		if found[check] == "" || level != "ok" {
			found[check] = level + " " + says
		}
		if level != "ok" && do == "" {
			t.Errorf("%s says nothing of what to do: %s", check, says)
		}
	})
	for _, finding := range findings {
		check, rest, _ := strings.Cut(finding, ": ")
		level, says, _ := strings.Cut(rest, " ")
		if !strings.HasPrefix(found[check], level+" ") || !strings.Contains(found[check], says) {
			t.Errorf("%s: %q; want %s %q", check, found[check], level, says)
		}
		delete(found, check)
	}
	for check, is := range found {
		if !strings.HasPrefix(is, "ok ") {
			t.Errorf("%s: %s", check, is)
		}
	}
}

// user creates a user with a database, and returns the address of the database for that user and for the
// administrator.
func user(t *testing.T, server, name string) (his, admins string) {
	t.Helper()
	for _, statement := range []string{"CREATE ROLE " + name + " LOGIN", "CREATE DATABASE " + name + " OWNER " + name} {
		if _, err := postgrestest.SQL(t.Context(), server, statement); err != nil {
			t.Fatal(err)
		}
	}
	admins = strings.Replace(server, "/postgres?", "/"+name+"?", 1)
	return strings.Replace(admins, "postgres@", name+"@", 1), admins
}

// TestCheckPlace changes the server of a database, and checks the findings of the doctor.
func TestCheckPlace(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	ann, admin := user(t, server, "ann")
	sql := func(statement string) {
		t.Helper()
		if _, err := postgrestest.SQL(t.Context(), admin, statement); err != nil {
			t.Fatal(err)
		}
	}
	finds(t, ann, "server: note there is no database at")
	initAt(t, ann)
	finds(t, ann, "server: ok as the user ann", "acknowledged: ok on the disk of 1 node",
		"audit user: ok cannot read credentials")
	sql(`GRANT SELECT ON mailroom.tokens TO mailroom_audit`)
	finds(t, ann, "audit user: problem can read credentials: tokens")
	initAt(t, ann)
	finds(t, ann)
	sql(`GRANT ann TO mailroom_audit`)
	finds(t, ann, "audit user: problem can do more than read")
	sql(`REVOKE ann FROM mailroom_audit`)
	sql(`ALTER ROLE mailroom_audit CONNECTION LIMIT -1`)
	finds(t, ann, "audit connections: note the user mailroom_audit has no connection limit")
	sql(`ALTER ROLE mailroom_audit CONNECTION LIMIT 20`)

	sql(`ALTER DATABASE ann SET synchronous_commit = off`)
	finds(t, ann, "acknowledged: problem acknowledged before it is on disk")
	initAt(t, ann) // stores the settings for ann
	finds(t, ann)

	// A pool that takes no settings from its clients has the settings of its user.
	rows, err := postgrestest.SQL(t.Context(), ann,
		`SELECT current_setting('enable_seqscan'), current_setting('search_path'),
			current_setting('statement_timeout')`)
	if err != nil {
		t.Fatal(err)
	}
	want.Rows(t, rows, "off|mailroom|0")

	sql(`ALTER SYSTEM SET full_page_writes = off`)
	sql(`SELECT pg_reload_conf()`)
	until(t, admin, `SELECT current_setting('full_page_writes')`, "off")
	finds(t, ann, "settings: problem full_page_writes is off")
	sql(`ALTER SYSTEM SET full_page_writes = on`)
	sql(`ALTER SYSTEM SET synchronous_standby_names = 'ANY 2 (a, b, c)'`)
	sql(`SELECT pg_reload_conf()`)
	until(t, admin, `SELECT current_setting('synchronous_standby_names')`, "ANY 2 (a, b, c)")
	finds(t, ann, "acknowledged: problem too few are connected")
	sql(`ALTER SYSTEM SET synchronous_standby_names = ''`)
	sql(`SELECT pg_reload_conf()`)
	until(t, admin, `SELECT current_setting('synchronous_standby_names')`, "")
	sql(`ALTER ROLE ann SET default_transaction_read_only = on`)
	finds(t, ann, "server: problem does not accept writes")
}

// until repeats a query until the server has read its configuration again.
func until(t *testing.T, address, question, answer string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for ctx.Err() == nil {
		if rows, err := postgrestest.SQL(ctx, address, question); err == nil && len(rows) == 1 && rows[0] == answer {
			return
		}
	}
	t.Fatalf("%s is not %q", question, answer)
}

// TestCheckLock makes one process keep others from writing.
func TestCheckLock(t *testing.T) {
	t.Parallel()
	address := postgrestest.Place(postgrestest.Start(t))
	one, other := initAt(t, address), at(t, address)
	var level, says string
	report := func(_, l, s, _ string) { level, says = l, s }
	if other.CheckLock(t.Context(), report) || level != "ok" {
		t.Errorf("free: %s %s", level, says)
	}
	has, done := make(chan struct{}), make(chan error)
	released := make(chan struct{})
	go func() {
		done <- write(one, store.Job(func(*store.Transaction) error {
			close(has)
			<-released
			return nil
		}))
	}()
	<-has
	if !other.CheckLock(t.Context(), report) || level != "problem" ||
		!strings.Contains(says, "because of a lock held by process ") {
		t.Errorf("held: %s %s", level, says)
	}
	close(released)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestInitWithoutRights creates a database as a user without the right to do so, and as a user for whom the
// administrator has created the schema.
func TestInitWithoutRights(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	if _, err := postgrestest.SQL(t.Context(), server, "CREATE ROLE bob LOGIN"); err != nil {
		t.Fatal(err)
	}
	bobs := strings.Replace(server, "postgres@", "bob@", 1)
	_, err := at(t, bobs).Create()
	want.Code(t, err, orchestrator.PermissionDenied)
	if text := fmt.Sprint(err); !strings.Contains(text,
		"the user bob has no right to create the schema mailroom in the database postgres") {
		t.Error(text)
	}
	if _, err := postgrestest.SQL(t.Context(), server, "CREATE SCHEMA mailroom AUTHORIZATION bob"); err != nil {
		t.Fatal(err)
	}
	initAt(t, bobs)
	finds(t, bobs)
}

// TestPasswords uses a server that asks both users for their passwords, which are in a file.
func TestPasswords(t *testing.T) {
	server := postgrestest.Start(t)
	ann, _ := user(t, server, "ann")
	initAt(t, ann)
	for _, statement := range []string{"ALTER ROLE ann PASSWORD 'hers'", "ALTER ROLE mailroom_audit PASSWORD 'its'"} {
		if _, err := postgrestest.SQL(t.Context(), server, statement); err != nil {
			t.Fatal(err)
		}
	}
	hba, err := postgrestest.SQL(t.Context(), server, "SHOW hba_file")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(hba[0], []byte("local all postgres trust\nlocal all all scram-sha-256\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := postgrestest.SQL(t.Context(), server, "SELECT pg_reload_conf()"); err != nil {
		t.Fatal(err)
	}
	for err == nil { // until the server has read the file
		_, err = postgrestest.SQL(t.Context(), ann, "SELECT 1")
	}
	file := filepath.Join(t.TempDir(), "pgpass")
	for _, known := range []struct{ hers, passwords, finding string }{
		{"", "*:*:*:ann:hers\n", "audit user: note cannot connect"},
		{"", "*:*:*:ann:hers\n*:*:*:mailroom_audit:its\n", "audit user: ok cannot read credentials"},
		{"hers", "*:*:*:mailroom_audit:its\n", "audit user: ok cannot read credentials"},
	} {
		t.Setenv("PGPASSWORD", known.hers)
		if err := os.WriteFile(file, []byte(known.passwords), 0o600); err != nil {
			t.Fatal(err)
		}
		finds(t, ann+"&passfile="+file, known.finding)
	}
	for _, known := range []struct {
		address, hers, passwords string
		enters                   bool
	}{
		{"", "hers", "", false},
		{"", "hers", "*:*:*:ann:wrong\n", false},
		{"", "hers", "*:*:*:ann:hers\n", true},
		{"", "", "*:*:*:ann:hers\n", true},
		{"&password=hers", "", "", false},
		{"&password=hers", "", "*:*:*:ann:hers\n", true},
	} {
		t.Setenv("PGPASSWORD", known.hers)
		if err := os.WriteFile(file, []byte(known.passwords), 0o600); err != nil {
			t.Fatal(err)
		}
		err := at(t, ann+"&passfile="+file+known.address).Enters(t.Context())
		if own, ok := errors.AsType[*orchestrator.Error](err); (err == nil) != known.enters ||
			ok && !strings.Contains(own.Hint, "~/.pgpass") {
			t.Errorf("%+v: who has neither enters: %v", known, err)
		}
	}
}

// TestTakesNoWrites makes a database read-only: reads succeed, and writes return the reason why they fail.
func TestTakesNoWrites(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	ann, admin := user(t, server, "ann")
	initAt(t, ann)
	if _, err := postgrestest.SQL(t.Context(), admin,
		"ALTER DATABASE ann SET default_transaction_read_only = on"); err != nil {
		t.Fatal(err)
	}
	finds(t, ann, "server: problem does not accept writes")
	for _, address := range []string{ann, ann + "&default_transaction_read_only=on"} {
		s := at(t, address)
		if n := count(t, s, "x"); n != 0 {
			t.Error(n)
		}
		twice := func(t *store.Transaction) error { return errors.Join(add("x")(t), add("y")(t)) }
		if err := write(s, store.Job(twice)); orchestrator.CodeOf(err) != orchestrator.Unavailable ||
			!strings.Contains(err.Error(), "does not accept writes") {
			t.Errorf("a write: %v", err)
		}
	}
}
