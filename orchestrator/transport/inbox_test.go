package transport_test

import (
	"database/sql"
	"path/filepath"
	"slices"
	"testing"

	_ "github.com/mattn/go-sqlite3"

	"mailroom"
	"mailroom/orchestrator"
	"mailroom/orchestrator/transport"
)

var (
	_ orchestrator.Transport    = transport.Inbox{}
	_ orchestrator.SetTransport = transport.Inbox{}
	_ orchestrator.Transport    = transport.JSONL{}
	_ orchestrator.Recoverer    = transport.JSONL{}
)

// inboxTable is a database in a real file, with the one connection that owns temp.batch.
type inboxTable struct {
	t  *testing.T
	db *sql.DB
}

func newInboxTable(t *testing.T) *inboxTable {
	t.Helper()
	db, err := sql.Open("sqlite3", filepath.Join(t.TempDir(), "mailroom.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1)
	b := &inboxTable{t: t, db: db}
	b.must(mailroom.Schema)
	b.must(`CREATE TEMP TABLE batch (seq INTEGER PRIMARY KEY)`)
	return b
}

func (b *inboxTable) exec(query string, args ...any) error {
	_, err := b.db.Exec(query, args...)
	return err
}

func (b *inboxTable) must(query string, args ...any) {
	b.t.Helper()
	if err := b.exec(query, args...); err != nil {
		b.t.Fatal(err)
	}
}

// rows returns the first column of a query.
func (b *inboxTable) rows(query string) (list []string) {
	b.t.Helper()
	rows, err := b.db.Query(query)
	if err != nil {
		b.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var s string
		if err := rows.Scan(&s); err != nil {
			b.t.Fatal(err)
		}
		list = append(list, s)
	}
	if err := rows.Err(); err != nil {
		b.t.Fatal(err)
	}
	return list
}

func (b *inboxTable) want(query string, want ...string) {
	b.t.Helper()
	if got := b.rows(query); !slices.Equal(got, want) {
		b.t.Errorf("%s:\n%q, want\n%q", query, got, want)
	}
}

// Exactly the rows of temp.batch are delivered, once each, in reading order, with their payload unchanged.
func TestInboxDeliversSets(t *testing.T) {
	t.Parallel()
	b := newInboxTable(t)
	b.must(`INSERT INTO agent_message (message_id, sender, recipient, payload, priority) VALUES
		('m1', 'a', 'b', '{"n":1.10}', 0), ('m2', 'a', 'c', '12345678901234567890', 0), ('m3', 'a', 'b', NULL, 9),
		('m4', 'a', 'b', '4', -9), ('m5', 'a', 'b', '5', 9), ('m6', 'a', 'b', '6', 0)`)
	b.must(`INSERT INTO batch SELECT seq FROM agent_message WHERE message_id <> 'm6'`)
	const at = "2025-10-26T10:30:00.000Z"
	if err := (transport.Inbox{}).DeliverSet(b.exec, at); err != nil {
		t.Fatal(err)
	}
	const all = `
		SELECT message_id || ' ' || recipient || ' ' || coalesce(payload,
			'NULL') || ' ' || typeof(payload) || ' ' || read_at
		FROM agent_inbox ORDER BY rowid`
	delivered := []string{
		"m3 b NULL null ", "m5 b 5 text ", `m1 b {"n":1.10} text `, "m2 c 12345678901234567890 text ", "m4 b 4 text ",
	}
	b.want(all, delivered...)
	b.want(`SELECT DISTINCT delivered_at FROM agent_inbox`, at)

	// Rows reset by hand are delivered again: existing rows stay unchanged, including read marks.
	b.must(`UPDATE agent_inbox SET read_at = 'read' WHERE message_id = 'm1'`)
	b.must(`INSERT INTO batch SELECT seq FROM agent_message WHERE message_id = 'm6'`)
	if err := (transport.Inbox{}).DeliverSet(b.exec, "2025-10-27T10:30:00.000Z"); err != nil {
		t.Fatal(err)
	}
	delivered[2] += "read"
	b.want(all, append(delivered, "m6 b 6 text ")...)
	b.want(`SELECT message_id FROM agent_inbox WHERE delivered_at <> '`+at+`'`, "m6")
}

func TestInboxWithoutBatchDeliversNothing(t *testing.T) {
	t.Parallel()
	b := newInboxTable(t)
	b.must(`INSERT INTO agent_message (message_id, sender, recipient) VALUES ('m1', 'a', 'b')`)
	if err := (transport.Inbox{}).DeliverSet(b.exec, "2025-10-26T10:30:00.000Z"); err != nil {
		t.Fatal(err)
	}
	b.want(`SELECT message_id FROM agent_inbox`)
}

func TestInboxIsForSetsOnly(t *testing.T) {
	t.Parallel()
	inbox := transport.Inbox{}
	if got, err := inbox.Check(""); got != "" || err != nil {
		t.Errorf("Check: %q, %v", got, err)
	}
	if _, err := inbox.Check("somewhere"); err == nil {
		t.Error("Check accepts an address")
	}
	if n := inbox.MaxBatch(); n != 1000 {
		t.Errorf("MaxBatch: %d", n)
	}
	errs := inbox.Deliver(t.Context(), orchestrator.Attempt{Messages: make([]orchestrator.Message, 2)})
	if len(errs) != 2 || errs[0] == nil || errs[1] == nil {
		t.Errorf("Deliver: %v", errs)
	}
}
