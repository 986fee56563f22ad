package reading_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/reading"
)

// TestHandOverLeavesTheSameRows checks that a hand-over and a read through the inbox give the same messages and leave
// the same rows, whatever the messages are, and whatever interferes with the hand-over.
func TestHandOverLeavesTheSameRows(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare string
		forbids string // true for rows whose status may not be changed
		limit   int
		read    int
	}{
		"a few messages":        {`SELECT 1`, "", 10, 5},
		"more than may be read": {`SELECT 1`, "", 4, 4},
		"something unread": {`INSERT INTO agent_inbox (recipient, message_id, delivered_at) SELECT 'b', message_id, 'x'
			FROM agent_message WHERE payload = '"payload 0"';
			UPDATE agent_message SET status = 'delivered', traced_status = 'delivered', delivered_at = 'x'
				WHERE payload = '"payload 0"'`, "", 10, 5},
		"a copy that was read": {`INSERT INTO agent_inbox (recipient, message_id, delivered_at, read_at) SELECT 'b',
			message_id, 'x', 'x' FROM agent_message`, "", 10, 0},
		"a row that cannot be": {`SELECT 1`, `new.payload = '"payload 2"'`, 10, 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			handed, rows, order := readPrepared(t, c.prepare, c.forbids,
				reading.Options{Recipient: "b", Limit: c.limit})
			slowly, slowRows, slowOrder := readPrepared(t, c.prepare, c.forbids, reading.Options{
				Recipient: "b", Limit: c.limit, Filter: reading.Filter{Sender: "a"}, // a filter reads through the inbox
			})
			if len(handed) != c.read || !reflect.DeepEqual(handed, slowly) {
				t.Errorf("handed over:\n%+v\nby way of the inbox:\n%+v", handed, slowly)
			}
			if !slices.Equal(rows, slowRows) {
				t.Errorf("handed over:\n%s\nby way of the inbox:\n%s", strings.Join(rows, "\n"),
					strings.Join(slowRows, "\n"))
			}
			if hinders := name != "a few messages"; slices.Equal(order, slowOrder) != hinders {
				t.Errorf("nothing was handed over: %t; the events of both:\n%q\n%q", !hinders, order, slowOrder)
			}
		})
	}
}

// TestHandOverOfADroppedRow checks that a reader does not get a message that a trigger keeps out of its inbox, and that
// the message does not count as delivered.
func TestHandOverOfADroppedRow(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	bad, good := f.Send("a", "b"), f.Send("a", "b")
	f.Drop("agent_inbox", "NEW.message_id = '"+bad+"'")
	ms := f.TakeFor("b", 0)
	if len(ms) != 1 || ms[0].ID != good {
		t.Errorf("read %v, want only %s", ms, good)
	}
	want.Equal(t, "status", f.Message(bad).Status, orchestrator.Retry)
}

// whileOneWaits calls then in a bubble in which agent b waits and agent a exists.
func whileOneWaits(t *testing.T, then func(t *testing.T, f *enginetest.Fixture, ended <-chan waited)) {
	synctest.Test(t, func(t *testing.T) {
		f := enginetest.NewBubble(t)
		defer f.Close()
		f.Add(agents.Update{Name: "a"})
		f.Add(agents.Update{Name: "b"})
		ended := make(chan waited, 1)
		wait(t.Context(), f.Engine, ended, "b")
		synctest.Wait()
		then(t, f, ended)
	})
}

// TestHandOverToNobody checks that an agent that was removed while it waited gets no more messages.
func TestHandOverToNobody(t *testing.T) {
	t.Parallel()
	whileOneWaits(t, func(t *testing.T, f *enginetest.Fixture, ended <-chan waited) {
		f.SQL(`INSERT INTO agent_message (message_id, sender, recipient, payload, traced_status, next_attempt_at)
			VALUES ('m', 'a', 'b', '1', 'pending', '');
			DELETE FROM agents WHERE name = 'b'; UPDATE settings SET value = 'another' WHERE key = 'config.version'`)
		f.Bell.Ring("b")
		w := <-ended
		want.Code(t, w.err, orchestrator.UnknownRecipient)
		want.Equal(t, "status", f.Message("m").Status, orchestrator.Pending)
	})
}

// TestWaitWithoutARing checks that a waiter looks from time to time, so that a lost ring does not matter.
func TestWaitWithoutARing(t *testing.T) {
	t.Parallel()
	whileOneWaits(t, func(t *testing.T, f *enginetest.Fixture, ended <-chan waited) {
		began := time.Now()
		f.SQL(`INSERT INTO agent_message (message_id, sender, recipient, payload) VALUES ('m', 'a', 'b', '1')`)
		w := <-ended
		if len(w.ms) != 1 || w.err != nil || time.Since(began) > orchestrator.SlowPoll {
			t.Errorf("after %s: %v, %v", time.Since(began), w.ms, w.err)
		}
	})
}

// readPrepared sends a few messages, changes the database with a statement, and reads the messages. It returns the
// messages, all rows of the database with payloads in place of random names, and the events in their order.
func readPrepared(t *testing.T, prepare, forbids string, o reading.Options) (ms []orchestrator.Message, rows,
	order []string) {
	f := enginetest.New(t, "a", "b")
	for i, change := range []func(d *orchestrator.Draft){
		func(d *orchestrator.Draft) { d.Priority = 1 },
		func(d *orchestrator.Draft) { d.Action, d.Summary = "interrupt", "now" },
		func(d *orchestrator.Draft) { d.TTL, d.ThreadID = time.Hour, "t" },
		func(d *orchestrator.Draft) {},
		func(d *orchestrator.Draft) { d.Priority, d.IdempotencyKey = 9, "k" },
	} {
		f.Send("a", "b", change,
			func(d *orchestrator.Draft) { d.Payload = json.RawMessage(fmt.Sprintf(`"payload %d"`, i)) })
	}
	f.SQL(`UPDATE agent_message SET status = 'retry', traced_status = 'retry', retry_count = 2, error_message = 'x',
		next_attempt_at = created_at
		WHERE payload = '"payload 3"'; ` + prepare)
	if forbids != "" {
		f.Forbid("UPDATE OF status", "agent_message", forbids, "no")
	}
	ms, _, err := reading.Wait(t.Context(), f.Ledger, o)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, row := range f.Rows(`SELECT message_id || ' ' || payload FROM agent_message`) {
		id, payload, _ := strings.Cut(row, " ")
		names = append(names, id, "ID"+payload)
	}
	named := strings.NewReplacer(names...)
	for i := range ms {
		ms[i].ID, ms[i].SpanID, ms[i].TraceID = named.Replace(ms[i].ID), "", ""
	}
	for _, query := range []string{
		`SELECT 'message', * FROM agent_message ORDER BY seq`,
		`SELECT 'inbox', recipient, message_id, payload, delivered_at, read_at FROM agent_inbox ORDER BY message_id`,
		`SELECT message_id, row_number() OVER (PARTITION BY message_id ORDER BY id), event, old_status, new_status, at,
			attempt, actor, error, detail
		 FROM message_trace ORDER BY message_id, id`,
	} {
		for _, row := range f.Rows(query) {
			rows = append(rows, named.Replace(row))
		}
	}
	for _, row := range f.Rows(`SELECT message_id, event FROM message_trace ORDER BY id`) {
		order = append(order, named.Replace(row))
	}
	return ms, rows, order
}
