package adoption_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/retention"
)

// TestDocumentByHand checks a program that knows only document 004: it sends with an INSERT, looks with the
// document's SELECT, and finishes with its UPDATE. The router handles all of these rows, and the trace records them.
func TestDocumentByHand(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "architect")
	f.ViewInboxes("code_developer")
	f.SQL(`INSERT INTO agent_message (message_id, sender, recipient, payload)
		VALUES ('m1','architect','code_developer','{"n":1}')`)
	f.SQL(`INSERT INTO agent_message (message_id, sender, recipient, message_type, payload, status, created_at)
		VALUES ('m2','architect','code_developer','spec_ready','{"n":1.50}','pending',CURRENT_TIMESTAMP)`)
	db := enginetest.Plain(t, f.Path)
	rows, err := db.Query(`SELECT message_id, sender, recipient, message_type, payload, retry_count FROM agent_message
		WHERE recipient = ? AND status IN ('pending', 'retry') ORDER BY created_at ASC LIMIT ?`, "code_developer", 10)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for rows.Next() {
		n++
	}
	rows.Close()
	want.Equal(t, "rows of the document's SELECT", n, 2)
	// This is the document's own delivery of m2.
	f.SQL(`INSERT INTO code_developer_inbox (message_id, payload) VALUES ('m2', '{"n":1.50}')`)
	f.SQL(`UPDATE agent_message SET status = 'delivered', delivered_at = CURRENT_TIMESTAMP WHERE message_id = 'm2'`)
	want.Equal(t, "delivered by the router", f.Deliver().Delivered, 1)
	want.Rows(t, f.Rows(`SELECT message_id, payload FROM agent_inbox ORDER BY message_id`), `m1 {"n":1}`,
		`m2 {"n":1.50}`)
	want.Rows(t, f.Rows(`SELECT message_id, event, old_status, new_status FROM message_trace ORDER BY message_id, id`),
		"m1 adopted <nil> pending", "m1 delivered pending delivered", "m2 adopted <nil> delivered")
	want.Rows(t, f.Rows(`SELECT payload FROM code_developer_inbox ORDER BY message_id`), `{"n":1}`, `{"n":1.50}`)
}

func TestAdoptionNormalises(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "architect", "builder")
	f.SQL(`INSERT INTO agent_message (message_id, sender, recipient, payload, created_at, retry_count,
		max_retries) VALUES
		('utc', 'Architect', 'BUILDER', NULL, '2025-10-26 10:30:00', NULL, NULL),
		('zone', 'architect', 'builder', 'plain "text"', '2025-10-26T10:30:00+02:00', -5, -1),
		('frac', 'architect', 'builder', '12345678901234567890.10', '2025-10-26T10:30:00.123456Z', 0, 3),
		('junk', 'architect', 'builder', 'no JSON', 'yesterday', 0, 3)`)
	junk := `"no JSON"`
	if !f.OnServer() {
		f.SQL(`UPDATE agent_message SET payload = x'ff00', retry_count = 'many' WHERE message_id = 'junk'`)
		junk = `"` + "\uFFFD" + `\u0000"`
	}
	f.Deliver()
	want.Rows(t, f.Rows(`SELECT message_id, sender, recipient, payload, created_at, retry_count, max_retries, status
		FROM agent_message ORDER BY seq`),
		"utc architect builder null 2025-10-26T10:30:00.000Z 0 3 delivered",
		`zone architect builder "plain \"text\"" 2025-10-26T08:30:00.000Z 0 3 delivered`,
		"frac architect builder 12345678901234567890.10 2025-10-26T10:30:00.123Z 0 3 delivered",
		"junk architect builder "+junk+" 2026-01-02T03:04:05.000Z 0 3 delivered")
}

// TestPollAgreesWithDelivery checks that poll and why show a hand-written message as waiting for the agent that will
// get it, whatever the spelling of its name and of the status.
func TestPollAgreesWithDelivery(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "architect", "architect2")
	done, undone := f.Send("a", "architect"), f.Send("a", "architect")
	f.Deliver()
	f.SQL(`UPDATE agent_message SET status = 'done' WHERE message_id = ?`, done)     // adoption undoes this change
	f.SQL(`UPDATE agent_message SET status = ' RETRY' WHERE message_id = ?`, undone) // adoption keeps this change
	blob := any([]byte("Architect"))
	if f.OnServer() {
		blob = "Architect"
	}
	f.SQL(`INSERT INTO agent_message (message_id, sender, recipient, payload, status) VALUES
		('plain', 'a', 'architect', '1', 'pending'), ('case', 'A', 'Architect', '1', 'pending'),
			('spaces', 'a', ?1, '1', 'pending'), ('blob', 'a', ?2, '1', 'pending'),
				('null', 'a', 'architect', '1', NULL), ('status', 'a', 'ARCHITECT', '1', 'Queued'),
		('other', 'a', 'Architect2', '1', 'pending'), ('inner', 'a', 'archi tect', '1', 'pending'),
			('kelvin', 'a', ?3, '1', 'pending'),
		('ended', 'a', 'Architect', '1', ' Delivered ')`, "\t architect \u00a0", blob, "architect\u200b")
	poll := func() (pending int, ids string) {
		t.Helper()
		b, err := delivery.Poll(t.Context(), f.Ledger, "Architect", 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range b.Messages {
			ids += " " + m.ID + ":" + string(m.Status) + ":" + m.Recipient
		}
		return b.Pending, ids
	}
	pending, ids := poll()
	want.Equal(t, "pending", pending, 7)
	wanted := " " + undone + ":retry:architect"
	for _, id := range []string{"plain", "case", "spaces", "blob", "null", "status"} {
		wanted += " " + id + ":pending:architect"
	}
	want.Equal(t, "listed", ids, wanted)
	for _, id := range []string{"case", "spaces", "null", "status"} {
		if why := f.Why(id); why.Recipient != "architect" || !strings.HasPrefix(why.Rule, "it is due now") {
			t.Errorf("why %s: %+v", id, why)
		}
	}
	f.SQL(`INSERT INTO agent_message (message_id, sender, recipient, payload, status, held, created_at) VALUES
		('stranger', 'a', ' NoBody ', '1', 'Pending', 1, '2025-12-31 10:00:00')`)
	state, err := overview.Status(t.Context(), f.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	var backlogs []string
	for _, b := range state.Recipients {
		backlogs = append(backlogs, fmt.Sprint(b.Recipient, " ", b.Known, b.Pending, b.Retry, b.Held, b.Unread))
	}
	want.Lines(t, backlogs, "a true 0 0 0 0", "archi tect false 1 0 0 0", "architect true 6 1 0 2",
		"architect2 true 1 0 0 0", "architect\u200b false 1 0 0 0", "nobody false 1 0 1 0")
	want.Equal(t, "oldest", state.Recipients[len(state.Recipients)-1].OldestAt, "2025-12-31T10:00:00.000Z")
	d, err := f.DeliverAll(t.Context(), delivery.Options{Recipient: "architect"})
	if err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "delivered", d.Delivered, pending)
	pending, _ = poll()
	want.Equal(t, "pending afterwards", pending, 0)
}

func TestAdoptionOfStatuses(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "architect", "builder")
	back := f.Send("architect", "builder")
	f.Deliver()
	f.SQL(`UPDATE agent_message SET status = 'pending' WHERE message_id = ?`, back)
	f.SQL(`INSERT INTO agent_message (message_id, sender, recipient, status)
		VALUES ('new', 'architect', 'builder', 'Queued'), ('null', 'architect', 'builder', NULL)`)
	odd := f.Send("architect", "builder")
	f.SQL(`UPDATE agent_message SET status = 'done' WHERE message_id = ?`, odd)
	f.Deliver()
	for _, id := range []string{back, "new", "null", odd} {
		want.Equal(t, "status of "+id, f.Message(id).Status, orchestrator.Delivered)
	}
	want.Equal(t, "inbox rows of the one set back by hand",
		len(f.Rows(`SELECT 1 FROM agent_inbox WHERE message_id = ?`, back)), 1)
	want.Rows(t, f.Rows(`SELECT error FROM message_trace WHERE event = 'adopted' AND error <> '' ORDER BY message_id`),
		`unknown status "done", reset to the previous status`, `unknown status "Queued", treated as pending`)
}

// TestBadRowFailsAlone checks that halving finds the row that makes its batch fail, and that only this row is
// retried.
func TestBadRowFailsAlone(t *testing.T) {
	t.Parallel()
	for why, harm := range map[string]func(f *enginetest.Fixture, condition string){
		"not this one": func(f *enginetest.Fixture, condition string) {
			f.Forbid("INSERT", "agent_inbox", condition, "not this one")
		},
		"a trigger dropped the row": func(f *enginetest.Fixture, condition string) { f.Drop("agent_inbox", condition) },
	} {
		f := enginetest.New(t, "architect", "builder")
		var ids []string
		for range 20 {
			ids = append(ids, f.Send("architect", "builder"))
		}
		harm(f, `NEW.message_id = '`+ids[7]+`'`)
		d := f.Deliver()
		want.Equal(t, "delivered", d.Delivered, 19)
		want.Equal(t, "failed", d.Failed, 1)
		want.Equal(t, "status", f.Message(ids[7]).Status, orchestrator.Retry)
		want.Equal(t, "who failed", d.Errors[0].MessageID, ids[7])
		if said := d.Errors[0].Message; !strings.Contains(said, why) {
			t.Errorf("the error does not name the cause %q: %s", why, said)
		}
	}
}

// TestFallbackOfAnInbox checks that document 004's fallback file is used when an inbox refuses a message.
func TestFallbackOfAnInbox(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "architect", "builder")
	file := "jsonl:" + t.TempDir() + "/builder.jsonl"
	f.Add(agents.Update{Name: "builder", Fallback: &file})
	id, other := f.Send("architect", "builder"), f.Send("architect", "builder")
	f.Forbid("INSERT", "agent_inbox", `NEW.message_id = '`+id+`'`, "not this one")
	f.Deliver()
	want.Equal(t, "status", f.Message(id).Status, orchestrator.Delivered)
	want.Equal(t, "status of the other", f.Message(other).Status, orchestrator.Delivered)
	const said = `CASE WHEN error LIKE '%not this one%' THEN 'not this one' ELSE error END`
	want.Rows(t, f.Rows(`SELECT event, `+said+` FROM message_trace WHERE message_id = ?
		AND event IN ('attempt_failed','delivered') ORDER BY id`, id),
		"attempt_failed not this one", "delivered by the fallback "+file)
}

func TestExpiryAndOverdue(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "architect", "reader")
	f.AddWired("builder")
	f.Wire.Set(enginetest.Failing("down"))
	f.Set("retry.max_retries", "100")
	f.Set("retry.ladder", "24h")
	short := f.Send("architect", "builder", func(d *orchestrator.Draft) { d.TTL = 10 * time.Minute })
	long := f.Send("architect", "builder")
	unread := f.Send("architect", "reader", func(d *orchestrator.Draft) { d.TTL = time.Hour })
	kept := f.Send("architect", "reader")
	f.Deliver()
	f.Clock.Advance(5*time.Minute + time.Second)
	f.Deliver()
	f.Deliver()
	want.Equal(t, "overdue events", len(f.Rows(`SELECT 1 FROM message_trace WHERE event = 'overdue'`)), 2)
	f.Clock.Advance(5 * time.Minute)
	f.Deliver()
	want.Equal(t, "ttl passed undelivered", f.Message(short).Status, orchestrator.Expired)
	f.Clock.Advance(time.Hour)
	ms, _, err := reading.Wait(t.Context(), f.Ledger, reading.Options{Recipient: "reader", Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "ttl passed unread", f.Message(unread).Status, orchestrator.Expired)
	if len(ms) != 1 || ms[0].ID != kept {
		t.Errorf("read %v; want only %s", ms, kept)
	}
	f.Clock.Advance(7 * 24 * time.Hour)
	f.Deliver()
	want.Equal(t, "seven days undelivered", f.Message(long).Status, orchestrator.Expired)
	want.Equal(t, "overdue events in the end", len(f.Rows(`SELECT 1 FROM message_trace WHERE event = 'overdue'`)), 2)
	want.Equal(t, "reports to the sender",
		len(f.Rows(`SELECT 1 FROM agent_message WHERE sender = 'system'
			AND json_extract(payload, '$.error') = 'expired'`)), 3)
}

// TestAdoptedEndsKeepTheirAge checks that the rows of an imported table keep their age: ended rows have their own
// times, so that the first clear_old clears them. A pending row has seven days from the import.
func TestAdoptedEndsKeepTheirAge(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "architect", "builder")
	f.SQL(`INSERT INTO agent_message (message_id, sender, recipient, status, created_at, delivered_at) VALUES
		('delivered', 'architect', 'builder', 'delivered', '2025-12-01 10:00:00', '2025-12-02 10:00:00'),
		('undated',   'architect', 'builder', 'delivered', '2025-12-01 10:00:00', NULL),
		('failed',    'architect', 'builder', 'failed',    '2025-12-01 10:00:00', NULL),
		('unclear',   'architect', 'builder', 'failed',    'some day', 'later'),
		('recent',    'architect', 'builder', 'delivered', '2025-12-01 10:00:00', '2026-01-01 10:00:00'),
		('pending',   'architect', 'builder', 'pending',   '2025-12-01 10:00:00', NULL)`)
	ended := f.Send("architect", "builder")
	f.SQL(`UPDATE agent_message SET status = 'failed', created_at = '2025-12-01T10:00:00.000Z' WHERE message_id = ?`,
		ended)
	cleared, err := retention.ClearOld(t.Context(), f.Ledger, retention.ClearOptions{OlderThan: 7 * 24 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "cleared", cleared.Deleted, 3)
	want.Equal(t, "archived of it", cleared.Statuses[orchestrator.Delivered], 2)
	want.Rows(t, f.Rows(`SELECT message_id, ended_at FROM agent_message WHERE ended_at <> '' ORDER BY seq`),
		"unclear 2026-01-02T03:04:05.000Z", "recent 2026-01-01T10:00:00.000Z", ended+" 2026-01-02T03:04:05.000Z")
	f.Deliver()
	want.Equal(t, "the pending one", f.Message("pending").Status, orchestrator.Delivered)
}

// TestTTLBeginsAnew checks that a TTL begins with the message, and again when the message is set back by hand.
func TestTTLBeginsAnew(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "architect", "builder")
	back := f.Send("architect", "builder", func(d *orchestrator.Draft) { d.TTL = time.Hour })
	f.Deliver()
	f.Take("builder")
	f.Clock.Advance(2 * time.Hour)
	f.SQL(`UPDATE agent_message SET status = 'pending' WHERE message_id = ?`, back)
	f.SQL(`INSERT INTO agent_message (message_id, sender, recipient, ttl_seconds, created_at)
		VALUES ('late', 'architect', 'builder', 3600, '2026-01-02 03:04:05')`)
	f.Deliver()
	want.Equal(t, "status of what was set back", f.Message(back).Status, orchestrator.Delivered)
	want.Equal(t, "its end", f.Message(back).ExpiresAt, orchestrator.Stamp(f.Clock.Now().Add(time.Hour)))
	want.Equal(t, "status of what came late", f.Message("late").Status, orchestrator.Expired)
}
