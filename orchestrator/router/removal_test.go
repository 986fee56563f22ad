package router_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/questions"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/retention"
	"mailroom/orchestrator/threads"
)

// remove removes an agent, whatever mail it has, and returns how many messages that gave up.
func (f *fixture) remove(name string) int {
	f.t.Helper()
	failed, err := delivery.RemoveAgent(f.t.Context(), f.Ledger, delivery.Removal{Name: name, Force: true, By: "a"})
	if err != nil {
		f.t.Fatal(err)
	}
	return failed
}

// wantRemoved fails unless an error says that b was removed, when, and what brings it back.
func wantRemoved(t *testing.T, err error, code orchestrator.Code) {
	t.Helper()
	wantCode(t, err, code)
	var e *orchestrator.Error
	if !errors.As(err, &e) || !strings.Contains(e.Message, `"b" was removed at 2026-01-02T03:04:05.000Z`) || !strings.Contains(e.Hint, "`mailroom agent add b` brings it back") {
		t.Errorf("%v; hint %q", err, e.Hint)
	}
}

// An agent with mail is removed only if that is forced; then all senders are told, of what it had not read as of what had
// not reached it, and no later agent of the name gets any of it.
func TestNobodyInheritsTheMailOfARemovedAgent(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "b", "c")
	read := f.send("a", "b")
	f.deliver()
	f.take("b")
	own := f.send("b", "b")
	unread, other := f.send("a", "b"), f.send("c", "b")
	f.deliver()
	pending := f.send("a", "b")
	f.sql(`INSERT INTO agent_message (message_id, sender, recipient) VALUES ('by-hand', 'c', ' B')`)
	f.sql(`INSERT INTO b_inbox (message_id, payload) VALUES ('no-message', '1')`)

	_, err := delivery.RemoveAgent(t.Context(), f.Ledger, delivery.Removal{Name: "b"})
	wantCode(t, err, orchestrator.Conflict)
	if !strings.Contains(err.Error(), "2 undelivered messages and 4 unread ones") {
		t.Error(err)
	}
	want(t, "status after a refusal", f.message(pending).Status, orchestrator.Pending)
	want(t, "given up", f.remove("B"), 5)

	wantRows(t, f.rows(`SELECT message_id, error_message FROM agent_message WHERE status = 'failed' ORDER BY seq`),
		own+" the agent b was removed before it read this", unread+" the agent b was removed before it read this",
		other+" the agent b was removed before it read this", pending+" the agent b was removed", "by-hand the agent b was removed")
	wantRows(t, f.rows(`SELECT recipient, json_extract(payload, '$.message_id') FROM agent_message WHERE message_type = 'error_report' ORDER BY recipient, 2`),
		"a "+unread, "a "+pending, "c by-hand", "c "+other)
	wantRows(t, f.rows(`SELECT message_id FROM agent_inbox WHERE recipient = 'b'`))
	wantRows(t, f.rows(`SELECT old_status, new_status FROM message_trace WHERE message_id = ? AND event = 'failed'`, unread), "delivered failed")

	if _, created, err := agents.Add(t.Context(), f.Ledger, agents.Update{Name: "b"}); err != nil || !created {
		t.Fatalf("added again: %t, %v", created, err)
	}
	f.deliver()
	wantRows(t, f.rows(`SELECT message_id FROM b_inbox`))
	if ms, _, err := reading.Wait(t.Context(), f.Ledger, reading.Options{Recipient: "b", Limit: 10}); err != nil || len(ms) > 0 {
		t.Errorf("the later agent got %v, %v", ms, err)
	}
	if released, err := messages.ReleaseAll(t.Context(), f.Ledger, "b", "b"); err != nil || len(released) > 0 {
		t.Errorf("the later agent was handed %v, %v", released, err)
	}
	_, _, err = messages.Release(t.Context(), f.Ledger, read, "b")
	wantCode(t, err, orchestrator.NotFound)
	if _, err := messages.Replay(t.Context(), f.Ledger, unread, ""); err != nil { // who wants to sends it again
		t.Fatal(err)
	}
	f.take("b")
}

// A refusal says what helps for the mail that is there: nobody can read what another reader holds, or what is wanted later.
func TestRemovalRefusedSaysWhatHelps(t *testing.T) {
	t.Parallel()
	const (
		read    = "have b read them (`mailroom wait --recipient b`)"
		confirm = "(`mailroom acknowledge ID`), or hand it back to be read (`mailroom mail release --all --agent b`)"
		cancel  = "(`mailroom cancel ID`, and `mailroom poll --recipient b` lists it)"
		force   = "; or give them up, which tells their senders: `mailroom agent remove b --force`"
	)
	for _, c := range []struct{ shown, later, unread bool }{
		{shown: true}, {later: true}, {unread: true}, {shown: true, later: true, unread: true},
	} {
		f := newFixture(t, "a", "b")
		if c.shown {
			id := f.send("a", "b")
			wantTaken(t, f.takeFor("b", time.Minute), id)
		}
		if c.later {
			f.send("a", "b", func(d *orchestrator.Draft) { d.NotBefore = f.clock.now().Add(time.Hour) })
		}
		if c.unread {
			f.send("a", "b")
		}
		_, err := delivery.RemoveAgent(t.Context(), f.Ledger, delivery.Removal{Name: "b"})
		var e *orchestrator.Error
		if !errors.As(err, &e) || e.Code != orchestrator.Conflict {
			t.Fatalf("%+v: %v", c, err)
		}
		for part, said := range map[string]bool{read: c.unread, confirm: c.shown, cancel: c.later, force: true} {
			if strings.Contains(e.Hint, part) != said {
				t.Errorf("%+v: the hint is %q; that it says %q should be %t", c, e.Hint, part, said)
			}
		}
		f.clock.advance(2 * time.Hour)
		_, err = delivery.RemoveAgent(t.Context(), f.Ledger, delivery.Removal{Name: "b"})
		if !errors.As(err, &e) || !strings.HasPrefix(e.Hint, "Deliver them and "+read+force) {
			t.Errorf("%+v: two hours later the hint is %q", c, e.Hint)
		}
	}
}

// What a reader was lent and has not confirmed, and what retention archived unread, is mail that nobody has read.
func TestRemovedWithLentAndArchivedMail(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "b")
	archived := f.send("a", "b")
	f.deliver()
	f.clock.advance(8 * 24 * time.Hour)
	if _, err := retention.ClearOld(t.Context(), f.Ledger, retention.ClearOptions{}); err != nil {
		t.Fatal(err)
	}
	lent := f.send("a", "b")
	f.deliver()
	f.sql(`UPDATE agent_inbox SET read_at = '2026-01-10T03:04:05.000Z' WHERE message_id = ?`, lent)
	f.sql(`INSERT INTO reading_lease (message_id, recipient, shown_at, until) VALUES (?, 'b', '2026-01-10T03:04:05.000Z', '2026-01-11T00:00:00.000Z')`, lent)
	_, err := delivery.RemoveAgent(t.Context(), f.Ledger, delivery.Removal{Name: "b"})
	wantCode(t, err, orchestrator.Conflict)
	want(t, "given up", f.remove("b"), 2)
	want(t, "status of the lent one", f.message(lent).Status, orchestrator.Failed)
	want(t, "status of the archived one", f.message(archived).Status, orchestrator.Delivered)
	wantRows(t, f.rows(`SELECT json_extract(payload, '$.message_id') FROM agent_message WHERE message_type = 'error_report' ORDER BY 1`), archived, lent)
	wantRows(t, f.rows(`SELECT message_id FROM agent_inbox UNION ALL SELECT message_id FROM reading_lease`))
}

// A removed name is nobody's: nothing registers it anew but adding it, and every error that it meets says since when.
func TestRemovedNameIsNotRegisteredByActing(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "b")
	role, ctx := "writes", t.Context()
	f.add(agents.Update{Name: "b", Role: &role})
	secret, _, err := agents.IssueToken(ctx, f.Ledger, "b", false, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.send("b", "a", func(d *orchestrator.Draft) { d.IdempotencyKey = "k" })
	waiting := make(chan error, 1)
	go func() {
		_, _, err := reading.Wait(ledger.WithIdentity(short(t), "b"), f.Ledger, reading.Options{Recipient: "b", Limit: 1, Timeout: time.Hour})
		waiting <- err
	}()
	want(t, "given up", f.remove("b"), 0)
	if err := <-waiting; !strings.Contains(fmt.Sprint(err), "was removed at") {
		t.Errorf("a wait under way: %v", err)
	}
	_, err = agents.Authenticate(ctx, f.Ledger, secret)
	wantCode(t, err, orchestrator.Unauthenticated)

	draft := orchestrator.Draft{Sender: "b", Recipient: "a"}
	_, err = messages.Send(ledger.WithIdentity(ctx, "b"), f.Ledger, draft)
	wantRemoved(t, err, orchestrator.UnknownSender)
	_, err = messages.Send(ctx, f.Ledger, draft)
	wantRemoved(t, err, orchestrator.UnknownSender)
	_, err = messages.Send(ctx, f.Ledger, orchestrator.Draft{Sender: "a", Recipient: "b"})
	wantRemoved(t, err, orchestrator.UnknownRecipient)
	var refused *orchestrator.Error
	errors.As(err, &refused)
	_, err = messages.Replay(ctx, f.Ledger, refused.MessageID, "")
	wantRemoved(t, err, orchestrator.UnknownRecipient)
	_, _, err = reading.Wait(ledger.WithIdentity(ctx, "b"), f.Ledger, reading.Options{Recipient: "b", Limit: 1})
	wantRemoved(t, err, orchestrator.UnknownSender)
	_, _, err = reading.Wait(ctx, f.Ledger, reading.Options{Recipient: "a", Limit: 1, Timeout: time.Second, For: []string{"b"}})
	wantRemoved(t, err, orchestrator.UnknownRecipient)
	_, err = agents.Join(ledger.WithIdentity(ctx, "b"), f.Ledger, agents.Joining{Session: room, Agent: "b"})
	wantRemoved(t, err, orchestrator.UnknownSender)
	_, err = threads.Create(ctx, f.Ledger, threads.Draft{Session: room, Name: "t", Creator: "a", Participants: []string{"b"}})
	wantRemoved(t, err, orchestrator.NotFound)
	_, err = delivery.Poll(ctx, f.Ledger, "b", 1)
	wantRemoved(t, err, orchestrator.UnknownRecipient)
	_, err = agents.Get(ctx, f.Ledger, "b")
	wantRemoved(t, err, orchestrator.NotFound)
	_, err = delivery.RemoveAgent(ctx, f.Ledger, delivery.Removal{Name: "b"})
	wantRemoved(t, err, orchestrator.NotFound)
	_, _, err = agents.IssueToken(ctx, f.Ledger, "b", false, 0)
	wantRemoved(t, err, orchestrator.Conflict)

	removed, err := overview.RemovedAgents(ctx, f.Ledger)
	if err != nil || len(removed) != 1 {
		t.Fatal(removed, err)
	}
	b := removed[0]
	want(t, "what is kept", fmt.Sprint(b.Name, b.Role, b.Status, b.StatusSince, b.RemovedBy), fmt.Sprint("b", "writes", overview.Removed, "2026-01-02T03:04:05.000Z", "a"))
	if agents, err := agents.List(ctx, f.Ledger); err != nil || len(agents) != 1 {
		t.Errorf("known: %v, %v", agents, err)
	}

	added := f.add(agents.Update{Name: "b"})
	want(t, "role of the one that begins anew", added.Role, "")
	wantRows(t, f.rows(`SELECT * FROM removed_agents`))
	again, err := messages.Send(ctx, f.Ledger, orchestrator.Draft{Sender: "b", Recipient: "a", Type: "note", Payload: []byte(`2`), IdempotencyKey: "k"})
	if err != nil || again.Idempotent {
		t.Errorf("the key of the former one: %+v, %v", again, err)
	}
}

// What a removed agent asked the user is taken back from the phones.
func TestQuestionsOfARemovedAgent(t *testing.T) {
	t.Parallel()
	f, devices := phoneFixture(t, 1)
	q, answered := f.question(devices), f.question(devices)
	if _, err := questions.Answer(t.Context(), f.Ledger, answered.ID, devices[0], "for the former one"); err != nil {
		t.Fatal(err)
	}
	f.add(agents.Update{Name: "a"})
	f.remove("builder")
	wantRows(t, f.rows(`SELECT question_id, status, answer FROM signal_questions ORDER BY question_id = ?`, answered.ID), q.ID+" cancelled ", answered.ID+" cancelled ")
	wantRows(t, f.rows(`SELECT old_status, new_status FROM message_trace WHERE message_id = ? ORDER BY id DESC LIMIT 1`, answered.ID), "answered cancelled")
}

// What a removed agent wanted to hear, that it has been obeyed or not been heeded, no later agent of the name hears.
func TestRequestsOfARemovedAgent(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "b", "c")
	request := f.mustAsk(orchestrator.PlanApproval, "b", "c")
	f.send("b", "c", func(d *orchestrator.Draft) { d.AckWithin = time.Minute })
	f.deliver()
	f.remove("b")
	f.add(agents.Update{Name: "b", PlanModeRequired: new(true)})
	_, err := f.reply(f.Engine, orchestrator.PlanApproval, request.RequestID, true, "c", "b")
	wantCode(t, err, orchestrator.Conflict)
	f.clock.advance(time.Hour)
	f.deliver()
	wantRows(t, f.rows(`SELECT message_type FROM agent_message WHERE recipient = 'b'`))
	agent, err := agents.Get(t.Context(), f.Ledger, "b")
	if err != nil || !agent.PlanModeRequired {
		t.Errorf("%+v, %v", agent, err)
	}
}

// A backlog of more than one batch is given up as a whole.
func TestRemovedWithALongBacklog(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "b")
	f.setting("bounce", "off")
	const n = 1201
	drafts := make([]orchestrator.Draft, n)
	for i := range drafts {
		drafts[i] = orchestrator.Draft{Sender: "a", Recipient: "b"}
	}
	messages.SendBatch(t.Context(), f.Ledger, drafts, false)
	f.deliver()
	messages.SendBatch(t.Context(), f.Ledger, drafts, false)
	want(t, "given up", f.remove("b"), 2*n)
	wantRows(t, f.rows(`SELECT status, count(*) FROM agent_message GROUP BY status`), fmt.Sprintf("failed %d", 2*n))
}
