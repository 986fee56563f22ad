package messages_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"mailroom/orchestrator"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
)

// TestARowThatTheDatabaseRefusesFailsAlone sends batches in which a trigger refuses the row of a message or its first
// event, at each place. The other messages are sent, also those of another batch in the same transaction, and each
// answer belongs to its own row.
func TestARowThatTheDatabaseRefusesFailsAlone(t *testing.T) {
	t.Parallel()
	for table, forbid := range map[string]func(f *enginetest.Fixture){
		"agent_message": func(f *enginetest.Fixture) {
			f.Forbid("INSERT", "agent_message", "NEW.payload LIKE '%bad%'", "no bad words")
		},
		"message_trace": forbidEvents,
	} {
		f := enginetest.New(t, "a", "b")
		forbid(f)
		for _, batch := range [][]string{{"bad", "1", "2"}, {"1", "bad", "2"}, {"1", "2", "bad"}, {"bad", "1", "bad"},
			{"bad", "bad", "bad"}, {"bad"}} {
			var together sync.WaitGroup
			together.Go(func() {
				if _, err := messages.Send(t.Context(), f.Ledger, draftOf("beside")); err != nil {
					t.Errorf("%s: sent beside %q: %v", table, batch, err)
				}
			})
			allSentButBad(t, f, batch, "no bad words")
			together.Wait()
			f.SQL(`DELETE FROM agent_message`)
		}
		outs := messages.SendBatch(t.Context(), f.Ledger, []orchestrator.Draft{draftOf("1"), draftOf("bad"),
			draftOf("2")}, true)
		want.Code(t, outs[1].Refused, orchestrator.InvalidParams)
		for _, i := range []int{0, 2} {
			if want.Code(t, outs[i].Refused, orchestrator.Conflict); outs[i].Sent.MessageID != "" &&
				outs[i].Refused == nil {
				t.Errorf("%d was sent of an atomic batch", i)
			}
		}
		want.Rows(t, f.Rows(`SELECT payload FROM agent_message`))
	}
}

// forbidEvents makes the database refuse the events of a message with a bad word.
func forbidEvents(f *enginetest.Fixture) {
	const bad = `(SELECT payload FROM agent_message WHERE message_id = NEW.message_id) LIKE '%bad%'`
	if !f.OnServer() {
		f.Forbid("INSERT", "message_trace", bad, "no bad words")
		return
	}
	f.SQL(`CREATE FUNCTION forbid_event() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN IF ` + bad + ` THEN RAISE EXCEPTION 'no bad words' USING ERRCODE = '40P99'; END IF; RETURN NEW; END $$;
		CREATE TRIGGER forbid_event BEFORE INSERT ON message_trace FOR EACH ROW EXECUTE FUNCTION forbid_event()`)
}

// batchesWithBad are batches in which the database refuses each message "bad".
var batchesWithBad = [][]string{{"bad"}, {"1", "bad", "2"}, {"bad", "1", "bad", "2", "bad"}, {"bad", "bad"}}

// TestATriggerThatUndoes checks SQLite's RAISE(ROLLBACK), which undoes the whole transaction. Only the affected row
// fails.
func TestATriggerThatUndoes(t *testing.T) {
	t.Parallel()
	enginetest.OfAFile(t, "RAISE(ROLLBACK) is SQLite's")
	f := enginetest.New(t, "a", "b")
	f.SQL(`CREATE TRIGGER forbid BEFORE INSERT ON agent_message WHEN NEW.payload LIKE '%bad%'
		BEGIN SELECT RAISE(ROLLBACK, 'no bad words'); END`)
	for _, batch := range batchesWithBad {
		allSentButBad(t, f, batch, "no bad words")
		f.SQL(`DELETE FROM agent_message`)
	}
}

// TestATriggerThatDrops checks triggers that discard a row without an error. Only the affected row fails, also in a
// batch with more rows than a server inserts at once, and it leaves no trace.
func TestATriggerThatDrops(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	f.Drop("agent_message", "NEW.payload LIKE '%bad%'")
	long := make([]string, 600)
	for i := range long {
		if long[i] = fmt.Sprint(i); i%257 == 256 {
			long[i] = "bad"
		}
	}
	for _, batch := range append(batchesWithBad, long) {
		var together sync.WaitGroup
		together.Go(func() {
			if _, err := messages.Send(t.Context(), f.Ledger, draftOf("beside")); err != nil {
				t.Errorf("sent beside %q: %v", batch, err)
			}
		})
		allSentButBad(t, f, batch, "a trigger dropped the row")
		together.Wait()
		want.Rows(t, f.Rows(`SELECT event FROM message_trace
			WHERE message_id NOT IN (SELECT message_id FROM agent_message)`))
		f.SQL(`DELETE FROM agent_message; DELETE FROM message_trace`)
	}
}

// TestAConstraintThatRefuses checks rows that violate a constraint that a user has added. Only the affected row
// fails.
func TestAConstraintThatRefuses(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	f.SQL(`CREATE UNIQUE INDEX once ON agent_message (sender, payload)`)
	drafts := []orchestrator.Draft{draftOf("1"), draftOf("2"), draftOf("1"), draftOf("3")}
	for i, out := range messages.SendBatch(t.Context(), f.Ledger, drafts, false) {
		if i == 2 {
			want.Code(t, out.Refused, orchestrator.InvalidParams)
		} else if out.Refused != nil {
			t.Errorf("%d: %v", i, out.Refused)
		}
	}
	want.Rows(t, f.Rows(`SELECT payload FROM agent_message ORDER BY seq`), `"1"`, `"2"`, `"3"`)
	_, err := messages.Send(t.Context(), f.Ledger, draftOf("2"))
	want.Code(t, err, orchestrator.InvalidParams)
	if !f.OnServer() {
		return // SQLite cannot add a constraint to a table
	}
	f.SQL(`DELETE FROM agent_message; ALTER TABLE agent_message ADD CONSTRAINT polite CHECK (payload NOT LIKE '%bad%')`)
	for _, batch := range batchesWithBad {
		allSentButBad(t, f, batch, "polite")
		f.SQL(`DELETE FROM agent_message`)
	}
}

func draftOf(payload string) orchestrator.Draft {
	return orchestrator.Draft{Sender: "a", Recipient: "b", Type: "note", Payload: orchestrator.JSONString(payload)}
}

// allSentButBad sends a batch and checks that each good message is in the database once and was answered, and that
// each bad one is refused for the reason why.
func allSentButBad(t *testing.T, f *enginetest.Fixture, batch []string, why string) {
	t.Helper()
	drafts := make([]orchestrator.Draft, len(batch))
	for i, payload := range batch {
		drafts[i] = draftOf(payload)
	}
	outs := messages.SendBatch(t.Context(), f.Ledger, drafts, false)
	for i, payload := range batch {
		if payload != "bad" {
			rows := f.Rows(`SELECT m.payload, count(*) FROM agent_message m
				JOIN message_trace e ON e.message_id = m.message_id WHERE m.message_id = ? GROUP BY m.payload`,
				outs[i].Sent.MessageID)
			if outs[i].Refused != nil || !slices.Equal(rows, []string{fmt.Sprintf("%q 1", payload)}) {
				t.Errorf("%q: %d is %v, %v", batch, i, rows, outs[i].Refused)
			}
			continue
		}
		want.Code(t, outs[i].Refused, orchestrator.InvalidParams)
		if said := fmt.Sprint(outs[i].Refused); !strings.Contains(said, "the database rejected the row") ||
			!strings.Contains(said, why) {
			t.Errorf("%q: %d says %s", batch, i, said)
		}
	}
	want.Rows(t, f.Rows(`SELECT payload FROM agent_message WHERE payload LIKE '%bad%'`))
}
