package postgres_test

import (
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/removal"
	"mailroom/orchestrator/store"
	"mailroom/orchestrator/store/postgres/postgrestest"
	"mailroom/orchestrator/store/storetest"
)

// Programs that write by hand name the tables with their schema, and then the triggers of the database need no
// search_path.
func TestByHandWithoutSearchPath(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	address := postgrestest.Place(server)
	e := made(t, address, "a", "b")
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	schema := u.Query().Get("search_path")
	s := postgrestest.Connect(t, server)
	s.Run(`INSERT INTO ` + schema +
		`.agent_message (message_id, sender, recipient, payload) VALUES ('m1', 'a', 'b', '1'), ('m2', 'a', 'b', '2'), ('m3', 'a', 'b', '3')`)
	if _, err := e.DeliverAll(t.Context(), delivery.Options{}); err != nil {
		t.Fatal(err)
	}
	s.Run(`INSERT INTO ` + schema + `.b_inbox (message_id, payload) VALUES ('m4', '4');
		DELETE FROM ` + schema + `.b_inbox WHERE message_id IN ('m1', 'm4');
		DELETE FROM ` + schema + `.agent_inbox WHERE message_id = 'm2';
		DELETE FROM ` + schema + `.agent_message WHERE message_id = 'm2';
		UPDATE ` + schema + `.agent_message SET recipient = 'a', seq = seq + 100 WHERE message_id = 'm3'`)
	var unread int64
	err = e.Read(t.Context(), func(c *store.Conn) (err error) {
		unread, err = c.Number(`SELECT n FROM message_count WHERE recipient = 'b' AND state = 'unread'`)
		return err
	})
	if err != nil || unread != 1 {
		t.Errorf("%d unread are counted, %v; m3 is", unread, err)
	}
}

// A query can read the inbox view of an agent that was added after the database was created, but write nothing
// there.
func TestQueryOfAnInboxView(t *testing.T) {
	t.Parallel()
	e := made(t, postgrestest.Place(postgrestest.Start(t, postgrestest.Careless)), "b")
	for query, allowed := range map[string]bool{`SELECT message_id FROM b_inbox`: true, `DELETE FROM b_inbox`: false} {
		if _, err := e.Query(t.Context(), query, store.Bound{Rows: 1}); (err == nil) != allowed {
			t.Errorf("%s: %v", query, err)
		}
	}
}

// Rows that somebody writes into tables with control data, or locks during a read, block nobody.
func TestByHandHindersNobody(t *testing.T) {
	t.Parallel()
	server := postgrestest.Start(t)
	address := postgrestest.Place(server)
	e := made(t, address, "a", "b")
	s := postgrestest.Connect(t, address)
	s.Run(`INSERT INTO pulse VALUES (123, 'infinity'), (124, '-infinity')`)
	other := engine(t, address)
	if other.Store.Gone("pulse.000000000000007b-x") {
		t.Error("a process without a sign is taken for dead at the first look")
	}
	if _, err := messages.Send(t.Context(), e.Ledger,
		orchestrator.Draft{Sender: "a", Recipient: "b", Type: "note", Payload: []byte("1")}); err != nil {
		t.Fatal(err)
	}
	if did, err := e.DeliverAll(t.Context(), delivery.Options{}); err != nil || did.Delivered != 1 {
		t.Errorf("%+v, %v", did, err)
	}
	s.Run(`BEGIN; SELECT count(*) FROM b_inbox`)
	if _, err := removal.Remove(t.Context(), e.Ledger, removal.Request{Name: "b", Force: true}); err != nil {
		t.Errorf("while somebody reads the view: %v", err)
	}
	s.Run(`COMMIT`)
	if _, _, err := agents.Add(t.Context(), e.Ledger, agents.Update{Name: "b"}); err != nil {
		t.Errorf("again: %v", err)
	}
	s.Run(`INSERT INTO b_inbox (message_id, payload) VALUES ('m9', '1')`)
}

// TestIdleTransaction keeps a transaction of another program open and idle after it has read all messages, so that
// the server cannot remove old rows. Meanwhile 2,000 messages are sent, delivered and read, each once.
func TestIdleTransaction(t *testing.T) {
	t.Parallel()
	address := postgrestest.Place(postgrestest.Start(t))
	e := made(t, address, "a", "b")
	idle := postgrestest.Connect(t, address)
	idle.Run(`BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM agent_message, agent_inbox, message_trace`)
	read := map[string]bool{}
	for range 20 {
		drafts := make([]orchestrator.Draft, 100)
		for i := range drafts {
			drafts[i] = orchestrator.Draft{Sender: "a", Recipient: "b", Type: "note", Payload: []byte("1")}
		}
		for _, sent := range messages.SendBatch(t.Context(), e.Ledger, drafts, true) {
			if sent.Refused != nil {
				t.Fatal(sent.Refused)
			}
		}
		if did, err := e.DeliverAll(t.Context(), delivery.Options{}); err != nil || did.Delivered != 100 {
			t.Fatalf("%+v, %v", did, err)
		}
		ms, _, err := reading.Wait(t.Context(), e.Ledger, reading.Options{Recipient: "b", Limit: 100})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range ms {
			read[m.ID] = true
		}
	}
	want.Equal(t, "messages read", len(read), 2000)
	idle.Run(`COMMIT`)
}

// At a mistyped address, nothing is created except by an explicit request.
func TestOnlyInitMakesTables(t *testing.T) {
	t.Parallel()
	place, err := openAt(storetest.Options{Address: postgrestest.Place(postgrestest.Start(t)),
		BusyTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer place.Close()
	e := ledger.New(ledger.Options{}, nil)
	e.UseStore(place)
	err = e.Create(t.Context())
	var own *orchestrator.Error
	if !errors.As(err, &own) || own.Code != orchestrator.Unavailable ||
		!strings.Contains(own.Hint, "To create it, run `mailroom --db ") || !e.Store.NoneYet() {
		t.Errorf("%+v", err)
	}
	if _, err := place.Create(); err != nil {
		t.Fatal(err)
	}
	if err := e.Create(t.Context()); err != nil {
		t.Error(err)
	}
}
