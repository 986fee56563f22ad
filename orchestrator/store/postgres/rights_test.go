package postgres_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/store/postgres/postgrestest"
)

// rightsOfWriters returns the statements of the page that give rights to a program that only writes messages by
// hand.
func rightsOfWriters(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../../docs/postgres.md")
	if err != nil {
		t.Fatal(err)
	}
	grants := regexp.MustCompile(`(?m)^GRANT .* TO writer;$`).FindAllString(string(page), -1)
	if len(grants) == 0 {
		t.Fatal("the page has none")
	}
	return strings.Join(grants, "\n")
}

// letWriter creates the user writer with the rights of the page, and returns the address of the database for that
// user.
func letWriter(t *testing.T, his string) (writers string) {
	t.Helper()
	admins := strings.Replace(his, "ann@", "postgres@", 1)
	for _, statement := range []string{"CREATE ROLE writer LOGIN", rightsOfWriters(t)} {
		if _, err := postgrestest.SQL(t.Context(), admins, statement); err != nil {
			t.Fatal(err)
		}
	}
	return strings.Replace(his, "ann@", "writer@", 1)
}

const (
	byHand       = `INSERT INTO mailroom.agent_message (message_id, sender, recipient) VALUES ('%s', 'a', 'b')`
	byHandAsLast = `INSERT INTO mailroom.agent_message (seq, message_id, sender, recipient) VALUES (%d, '%s', 'a', 'b')`
)

// A user who only writes messages by hand can do nothing else: neither exhaust the numbers of messages, nor make the
// tables' triggers run code of that user.
func TestFewestRights(t *testing.T) {
	t.Parallel()
	ann, _ := user(t, postgrestest.Start(t, postgrestest.Careless), "ann")
	s := initAt(t, ann)
	writers := letWriter(t, ann)
	writes := func(statement string) error {
		_, err := postgrestest.SQL(t.Context(), writers, statement)
		return err
	}
	for _, statement := range []string{
		// The next number is larger than the one that the user chose.
		fmt.Sprintf(byHand, "m1"), fmt.Sprintf(byHandAsLast, 500, "m2"), fmt.Sprintf(byHand, "m3"),
		`CREATE FUNCTION pg_temp.mine() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN CREATE TABLE mailroom.mine (); RETURN 1; END $$;
		CREATE TEMP VIEW agent_message_seq_seq AS SELECT pg_temp.mine() AS last_value; ` +
			fmt.Sprintf(byHandAsLast, 600, "m4"),
	} {
		if err := writes(statement); err != nil {
			t.Errorf("%s: %v", statement, err)
		}
	}
	for _, statement := range []string{
		`SELECT setval('mailroom.agent_message_seq_seq', 9223372036854775807)`,
		`UPDATE mailroom.agent_message SET seq = 1`, `SELECT * FROM mailroom.agent_message`,
		`CREATE TEMP TABLE mine (seq bigint); CREATE TRIGGER mine AFTER INSERT ON mine FOR EACH ROW EXECUTE FUNCTION mailroom.agent_message_numbered()`,
	} {
		if err := writes(statement); err == nil || !strings.Contains(err.Error(), "permission denied") {
			t.Errorf("%s: %v", statement, err)
		}
	}
	rows, err := postgrestest.SQL(t.Context(), ann,
		`SELECT message_id, seq FROM agent_message ORDER BY seq; SELECT to_regclass('mailroom.mine') IS NULL`)
	if err != nil {
		t.Fatal(err)
	}
	want.Rows(t, rows, "m1|1", "m2|500", "m3|501", "m4|600", "1")
	if err := write(s, add("x")); err != nil {
		t.Error(err)
	}
}

// In a database of version 1, writers need a further right. The next command upgrades the database, which replaces the
// right by a function.
func TestFewestRightsInOlderTables(t *testing.T) {
	t.Parallel()
	ann, _ := user(t, postgrestest.Start(t, postgrestest.Careless), "ann")
	initAt(t, ann)
	function := `SELECT prosecdef, proconfig, proacl FROM pg_proc WHERE proname = 'agent_message_numbered'`
	fresh, err := postgrestest.SQL(t.Context(), ann, function)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := postgrestest.SQL(t.Context(), ann,
		`ALTER FUNCTION agent_message_numbered() SECURITY INVOKER SET search_path FROM CURRENT;
		GRANT EXECUTE ON FUNCTION agent_message_numbered() TO PUBLIC;
		CREATE TRIGGER agent_message_disowned AFTER UPDATE OF traced_status ON agent_message FOR EACH ROW EXECUTE FUNCTION agent_message_gone();
		ALTER TABLE agent_message DROP COLUMN chain_at, DROP COLUMN held_from, DROP COLUMN wake; ALTER TABLE agent_message_archive DROP COLUMN wake;
		ALTER TABLE agents DROP COLUMN wake; DROP TABLE context_use; ALTER TABLE agent_inbox DROP COLUMN told_in; ALTER TABLE host_sessions DROP COLUMN shown_id, DROP COLUMN shown_at, DROP COLUMN prompted_at; ALTER TABLE agents DROP COLUMN pass_env, DROP CONSTRAINT agents_name; ALTER TABLE groups DROP CONSTRAINT groups_name;
		ALTER TABLE group_members DROP CONSTRAINT group_members_agent; UPDATE settings SET value = '1' WHERE key = 'schema.version'`); err != nil {
		t.Fatal(err)
	}
	writers := letWriter(t, ann)
	if _, err := postgrestest.SQL(t.Context(), writers, fmt.Sprintf(byHand, "m1")); err == nil {
		t.Error("the version before needs a right more")
	}
	if err := at(t, ann).Look(t.Context(), func(*store.Conn) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if _, err := postgrestest.SQL(t.Context(), writers, fmt.Sprintf(byHand, "m1")); err != nil {
		t.Error(err)
	}
	upgraded, err := postgrestest.SQL(t.Context(), ann, function)
	if err != nil {
		t.Fatal(err)
	}
	want.Rows(t, upgraded, fresh...)
}
