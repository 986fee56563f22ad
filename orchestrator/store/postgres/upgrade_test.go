package postgres_test

import (
	"bufio"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator/orchestratortest/helper"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/store/postgres"
	"mailroom/orchestrator/store/postgres/postgrestest"
)

// nextStep changes tables, rows and functions, and fails if it runs twice.
const nextStep = `
	ALTER TABLE agents ADD COLUMN next text COLLATE "C" NOT NULL DEFAULT 'none';
	CREATE TABLE upgraded (n bigint PRIMARY KEY); INSERT INTO upgraded VALUES (1);
	UPDATE agent_message SET session_id = 'second';
	CREATE FUNCTION second() RETURNS bigint LANGUAGE sql AS $$ SELECT count(*) FROM upgraded $$`

// upgraded opens a database as a program of the next version. goOn determines whether programs of this version may
// continue.
func upgraded(address string, goOn bool, step string) (*postgres.Store, error) {
	nothing := func(*store.Transaction) error { return nil }
	s, err := postgres.Open(postgres.Options{DSN: address, Log: slog.New(slog.DiscardHandler),
		BusyTimeout: 10 * time.Second, Begin: nothing, End: nothing})
	if err == nil {
		oldest := s.Version()
		if !goOn {
			oldest++
		}
		s.SetSteps(oldest, step)
	}
	return s, err
}

// upgradeHelper is another process of that version: it waits for a line, and then writes.
func upgradeHelper(address string, in *bufio.Scanner) {
	s, err := upgraded(address, false, nextStep)
	fmt.Println("open")
	in.Scan()
	if err == nil {
		err = write(s, add(in.Text()))
	}
	fmt.Println("ended", err)
}

// madeNow creates a database of the current version with a message, and returns the store that created it.
func madeNow(t *testing.T, server string) (s *postgres.Store, address string) {
	t.Helper()
	address = postgrestest.Place(server)
	s = initAt(t, address)
	if err := write(s, store.Job(func(t *store.Transaction) error {
		return t.Run(`INSERT INTO agent_message (message_id, sender, recipient) VALUES ('m', 'a', 'b')`)
	})); err != nil {
		t.Fatal(err)
	}
	return s, address
}

// Several processes of the next version start at once: one of them changes the tables, and each writes. Older
// programs are refused.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	old, address := madeNow(t, postgrestest.Start(t))
	var all []*helper.Process
	for range 3 {
		p := helper.Start(t, "upgrade", address)
		p.Expect("open")
		all = append(all, p)
	}
	for i, p := range all {
		p.Say(fmt.Sprint("row ", i))
	}
	for _, p := range all {
		p.Expect("ended <nil>")
	}
	rows, err := postgrestest.SQL(t.Context(), address,
		`SELECT session_id, second(), (SELECT value FROM settings WHERE key = 'schema.version'),
			(SELECT count(*) FROM settings WHERE key LIKE 'row _') FROM agent_message`)
	if err != nil {
		t.Fatal(err)
	}
	this := old.Version()
	want.Rows(t, rows, fmt.Sprintf("second|1|%d|3", this+1))
	for name, err := range map[string]error{
		"one that has it open": old.Look(t.Context(), func(c *store.Conn) error { return c.Admit() }),
		"a new one":            at(t, address).Look(t.Context(), func(*store.Conn) error { return nil }),
	} {
		if !errors.Is(err, store.ErrOutdated) ||
			!strings.Contains(fmt.Sprint(err),
				fmt.Sprintf("the database has version %d of the tables, but this program supports versions up to %d", this+1, this)) {
			t.Errorf("an older program, %s: %v", name, err)
		}
	}
}

// Older programs continue if the new tables permit it.
func TestUpgradeThatOnlyAdds(t *testing.T) {
	t.Parallel()
	old, address := madeNow(t, postgrestest.Start(t))
	s, err := upgraded(address, true, nextStep)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, s := range []*postgres.Store{s, old, at(t, address)} {
		if err := s.Look(t.Context(), func(c *store.Conn) error { return c.Admit() }); err != nil {
			t.Error(err)
		}
	}
	if err := write(old, add("a row")); err != nil {
		t.Error(err)
	}
}

// A step that fails changes nothing, and the next program tries it again. An upgrade and writers wait for each
// other.
func TestUpgradeThatFails(t *testing.T) {
	t.Parallel()
	old, address := madeNow(t, postgrestest.Start(t))
	bad, err := upgraded(address, false, nextStep+`; SELECT 1/0`)
	if err != nil {
		t.Fatal(err)
	}
	defer bad.Close()
	err = write(bad, add("refused"))
	if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("cannot upgrade the tables to version %d: ", old.Version()+1)) {
		t.Errorf("a step that fails: %v", err)
	}
	if err := write(old, add("still")); err != nil {
		t.Errorf("the old version afterwards: %v", err)
	}
	good, err := upgraded(address, false, nextStep)
	if err != nil {
		t.Fatal(err)
	}
	defer good.Close()
	done := make(chan error)
	err = write(old, store.Job(func(*store.Transaction) error {
		go func() { done <- write(good, add("behind")) }()
		rows := []string{}
		for len(rows) == 0 && t.Context().Err() == nil { // until it waits
			var err error
			if rows, err = postgrestest.SQL(t.Context(), address,
				`SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted`); err != nil {
				return err
			}
		}
		return nil
	}))
	if err := errors.Join(err, <-done); err != nil {
		t.Error(err)
	}
	want.Equal(t, "rows", count(t, good, "behind"), 1)
}

// A database that has moved away is upgraded for its readers, and stays closed.
func TestUpgradeClosed(t *testing.T) {
	t.Parallel()
	old, address := madeNow(t, postgrestest.Start(t))
	if err := write(old, store.Job(func(t *store.Transaction) error {
		if err := t.Run(store.StoreSetting, store.MovedTo, "elsewhere", ""); err != nil {
			return err
		}
		return t.Driver.(store.Mover).Shut()
	})); err != nil {
		t.Fatal(err)
	}
	s, err := upgraded(address, false, nextStep)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Look(t.Context(), func(c *store.Conn) error { return c.Admit() }); err != nil {
		t.Error(err)
	}
	if _, err := postgrestest.SQL(t.Context(), address, `UPDATE agent_message SET session_id = 'third'`); err == nil ||
		!strings.Contains(err.Error(), "has moved to elsewhere") {
		t.Errorf("a change by hand: %v", err)
	}
}
