package removal_test

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
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/questions"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/removal"
	"mailroom/orchestrator/retention"
	"mailroom/orchestrator/threads"
)

// remove removes an agent with Force, and returns the number of messages that were given up.
func remove(f *enginetest.Fixture, name string) int {
	f.T.Helper()
	failed, err := removal.Remove(f.T.Context(), f.Ledger, removal.Request{Name: name, Force: true, By: "a"})
	if err != nil {
		f.T.Fatal(err)
	}
	return failed
}

// wantRemoved fails unless an error states that b was removed, when, and how to add it again.
func wantRemoved(t *testing.T, err error, code orchestrator.Code) {
	t.Helper()
	want.Code(t, err, code)
	var e *orchestrator.Error
	if !errors.As(err, &e) || !strings.Contains(e.Message, `"b" was removed at 2026-01-02T03:04:05.000Z`) ||
		!strings.Contains(e.Hint, "To restore the agent, run `mailroom agent add b`") {
		t.Errorf("%v; hint %q", err, e.Hint)
	}
}

// TestNobodyInheritsTheMailOfARemovedAgent checks that an agent with unread or undelivered messages is removed only
// with Force. Then all senders are notified, and no later agent of the name gets any of the messages.
func TestNobodyInheritsTheMailOfARemovedAgent(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b", "c")
	read := f.Send("a", "b")
	f.Deliver()
	f.Take("b")
	own := f.Send("b", "b")
	unread, other := f.Send("a", "b"), f.Send("c", "b")
	f.Deliver()
	pending := f.Send("a", "b")
	f.SQL(`INSERT INTO agent_message (message_id, sender, recipient) VALUES ('by-hand', 'c', ' B')`)
	f.ViewInboxes("b")
	f.SQL(`INSERT INTO b_inbox (message_id, payload) VALUES ('no-message', '1')`)

	_, err := removal.Remove(t.Context(), f.Ledger, removal.Request{Name: "b"})
	want.Code(t, err, orchestrator.Conflict)
	if !strings.Contains(err.Error(), "2 undelivered messages and 4 unread messages") {
		t.Error(err)
	}
	want.Equal(t, "status after a refusal", f.Message(pending).Status, orchestrator.Pending)
	want.Equal(t, "given up", remove(f, "B"), 5)

	want.Rows(t, f.Rows(`SELECT message_id, error_message FROM agent_message WHERE status = 'failed' ORDER BY seq`),
		own+" the agent b was removed before it read the message", unread+" the agent b was removed before it read the message",
		other+" the agent b was removed before it read the message", pending+" the agent b was removed",
		"by-hand the agent b was removed")
	want.Rows(t, f.Rows(`SELECT recipient, json_extract(payload, '$.message_id') FROM agent_message
		WHERE message_type = 'error_report' ORDER BY recipient, 2`),
		"a "+unread, "a "+pending, "c by-hand", "c "+other)
	want.Rows(t, f.Rows(`SELECT message_id FROM agent_inbox WHERE recipient = 'b'`))
	want.Rows(t, f.Rows(`SELECT old_status, new_status FROM message_trace WHERE message_id = ? AND event = 'failed'`,
		unread), "delivered failed")
	if _, created, err := agents.Add(t.Context(), f.Ledger, agents.Update{Name: "b"}); err != nil || !created {
		t.Fatalf("added again: %t, %v", created, err)
	}
	f.Deliver()
	want.Rows(t, f.Rows(`SELECT message_id FROM agent_inbox WHERE recipient = 'b' AND read_at = ''`))
	if ms, _, err := reading.Wait(t.Context(), f.Ledger, reading.Options{Recipient: "b", Limit: 10}); err != nil ||
		len(ms) > 0 {
		t.Errorf("the later agent got %v, %v", ms, err)
	}
	if released, err := messages.ReleaseAll(t.Context(), f.Ledger, "b", "b"); err != nil || len(released) > 0 {
		t.Errorf("the later agent was handed %v, %v", released, err)
	}
	_, _, err = messages.Release(t.Context(), f.Ledger, read, "b")
	want.Code(t, err, orchestrator.NotFound)
	if _, err := messages.Replay(t.Context(), f.Ledger, unread, ""); err != nil { // the administrator can send it again
		t.Fatal(err)
	}
	f.Take("b")
}

// TestRemovalRefusedSaysWhatHelps checks that the hint of a refusal fits the messages: nobody can read messages that
// another reader has leased, or that are scheduled for later.
func TestRemovalRefusedSaysWhatHelps(t *testing.T) {
	t.Parallel()
	const (
		read    = "read them as b (`mailroom wait --recipient b`)"
		confirm = "(`mailroom acknowledge ID`), or make them unread (`mailroom mail release --all --agent b`)"
		cancel  = "(to list them, run `mailroom poll --recipient b`; to cancel one, run `mailroom cancel ID`)"
		force   = ". Or discard the messages and notify their senders: `mailroom agent remove b --force`"
	)
	for _, c := range []struct{ shown, later, unread bool }{
		{shown: true}, {later: true}, {unread: true}, {shown: true, later: true, unread: true},
	} {
		f := enginetest.New(t, "a", "b")
		if c.shown {
			id := f.Send("a", "b")
			want.IDs(t, f.TakeFor("b", time.Minute), id)
		}
		if c.later {
			f.Send("a", "b", func(d *orchestrator.Draft) { d.NotBefore = f.Clock.Now().Add(time.Hour) })
		}
		if c.unread {
			f.Send("a", "b")
		}
		_, err := removal.Remove(t.Context(), f.Ledger, removal.Request{Name: "b"})
		var e *orchestrator.Error
		if !errors.As(err, &e) || e.Code != orchestrator.Conflict {
			t.Fatalf("%+v: %v", c, err)
		}
		for part, said := range map[string]bool{read: c.unread, confirm: c.shown, cancel: c.later, force: true} {
			if strings.Contains(e.Hint, part) != said {
				t.Errorf("%+v: the hint is %q; that it says %q should be %t", c, e.Hint, part, said)
			}
		}
		f.Clock.Advance(2 * time.Hour)
		_, err = removal.Remove(t.Context(), f.Ledger, removal.Request{Name: "b"})
		if !errors.As(err, &e) || !strings.HasPrefix(e.Hint, "Deliver the messages and "+read+force) {
			t.Errorf("%+v: two hours later the hint is %q", c, e.Hint)
		}
	}
}

// TestRemovedWithLentAndArchivedMail checks that messages under a lease that are not acknowledged, and messages that
// were archived unread, count as unread.
func TestRemovedWithLentAndArchivedMail(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	archived := f.Send("a", "b")
	f.Deliver()
	f.Clock.Advance(8 * 24 * time.Hour)
	if _, err := retention.ClearOld(t.Context(), f.Ledger, retention.ClearOptions{}); err != nil {
		t.Fatal(err)
	}
	lent := f.Send("a", "b")
	f.Deliver()
	f.SQL(`UPDATE agent_inbox SET read_at = '2026-01-10T03:04:05.000Z' WHERE message_id = ?`, lent)
	f.SQL(`INSERT INTO reading_lease (message_id, recipient, shown_at, until)
		VALUES (?, 'b', '2026-01-10T03:04:05.000Z', '2026-01-11T00:00:00.000Z')`, lent)
	_, err := removal.Remove(t.Context(), f.Ledger, removal.Request{Name: "b"})
	want.Code(t, err, orchestrator.Conflict)
	want.Equal(t, "given up", remove(f, "b"), 2)
	want.Equal(t, "status of the lent one", f.Message(lent).Status, orchestrator.Failed)
	want.Equal(t, "status of the archived one", f.Message(archived).Status, orchestrator.Delivered)
	want.Rows(t, f.Rows(`SELECT json_extract(payload, '$.message_id') FROM agent_message
		WHERE message_type = 'error_report' ORDER BY 1`), archived, lent)
	want.Rows(t, f.Rows(`SELECT message_id FROM agent_inbox UNION ALL SELECT message_id FROM reading_lease`))
}

// TestRemovedNameIsNotRegisteredByActing checks that only adding an agent registers a removed name again, and that
// every error about the name states when the agent was removed.
func TestRemovedNameIsNotRegisteredByActing(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	role, ctx := "writes", t.Context()
	f.Add(agents.Update{Name: "b", Role: &role})
	secret, _, err := agents.IssueToken(ctx, f.Ledger, "b", false, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.Send("b", "a", func(d *orchestrator.Draft) { d.IdempotencyKey = "k" })
	waiting := make(chan error, 1)
	go func() {
		_, _, err := reading.Wait(ledger.WithIdentity(enginetest.Deadline(t), "b"), f.Ledger,
			reading.Options{Recipient: "b", Limit: 1, Timeout: time.Hour})
		waiting <- err
	}()
	want.Equal(t, "given up", remove(f, "b"), 0)
	if err := <-waiting; !strings.Contains(fmt.Sprint(err), "was removed at") {
		t.Errorf("a wait under way: %v", err)
	}
	_, err = agents.Authenticate(ctx, f.Ledger, secret)
	want.Code(t, err, orchestrator.Unauthenticated)

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
	_, _, err = reading.Wait(ctx, f.Ledger,
		reading.Options{Recipient: "a", Limit: 1, Timeout: time.Second, For: []string{"b"}})
	wantRemoved(t, err, orchestrator.UnknownRecipient)
	_, err = agents.Join(ledger.WithIdentity(ctx, "b"), f.Ledger, agents.Joining{Session: enginetest.Room, Agent: "b"})
	wantRemoved(t, err, orchestrator.UnknownSender)
	_, err = threads.Create(ctx, f.Ledger,
		threads.Draft{Session: enginetest.Room, Name: "t", Creator: "a", Participants: []string{"b"}})
	wantRemoved(t, err, orchestrator.NotFound)
	_, err = delivery.Poll(ctx, f.Ledger, "b", 1)
	wantRemoved(t, err, orchestrator.UnknownRecipient)
	_, err = agents.Get(ctx, f.Ledger, "b")
	wantRemoved(t, err, orchestrator.NotFound)
	_, err = removal.Remove(ctx, f.Ledger, removal.Request{Name: "b"})
	wantRemoved(t, err, orchestrator.NotFound)
	_, _, err = agents.IssueToken(ctx, f.Ledger, "b", false, 0)
	wantRemoved(t, err, orchestrator.Conflict)

	removed, err := overview.RemovedAgents(ctx, f.Ledger)
	if err != nil || len(removed) != 1 {
		t.Fatal(removed, err)
	}
	b := removed[0]
	want.Equal(t, "what is kept", fmt.Sprint(b.Name, b.Role, b.Status, b.StatusSince, b.RemovedBy),
		fmt.Sprint("b", "writes", overview.Removed, "2026-01-02T03:04:05.000Z", "a"))
	if agents, err := agents.List(ctx, f.Ledger); err != nil || len(agents) != 1 {
		t.Errorf("known: %v, %v", agents, err)
	}

	added := f.Add(agents.Update{Name: "b"})
	want.Equal(t, "role of the one that begins anew", added.Role, "")
	want.Rows(t, f.Rows(`SELECT * FROM removed_agents`))
	again, err := messages.Send(ctx, f.Ledger,
		orchestrator.Draft{Sender: "b", Recipient: "a", Type: "note", Payload: []byte(`2`), IdempotencyKey: "k"})
	if err != nil || again.Idempotent {
		t.Errorf("the key of the former one: %+v, %v", again, err)
	}
}

// TestQuestionsOfARemovedAgent checks that the questions of a removed agent to the user are withdrawn from the
// phones.
func TestQuestionsOfARemovedAgent(t *testing.T) {
	t.Parallel()
	f, devices := enginetest.NewPhones(t, 1)
	q, answered := f.Question(devices), f.Question(devices)
	if _, err := questions.Answer(t.Context(), f.Ledger, answered.ID, devices[0], "for the former one"); err != nil {
		t.Fatal(err)
	}
	f.Add(agents.Update{Name: "a"})
	remove(f, "builder")
	want.Rows(t, f.Rows(`SELECT question_id, status, answer FROM signal_questions ORDER BY question_id = ?`,
		answered.ID), q.ID+" cancelled ", answered.ID+" cancelled ")
	want.Rows(t, f.Rows(`SELECT old_status, new_status FROM message_trace WHERE message_id = ? ORDER BY id DESC
		LIMIT 1`, answered.ID), "answered cancelled")
}

// TestRequestsOfARemovedAgent checks that no later agent of the name gets the reports that a removed agent had
// requested.
func TestRequestsOfARemovedAgent(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b", "c")
	request := f.MustAsk(orchestrator.PlanApproval, "b", "c")
	f.Send("b", "c", func(d *orchestrator.Draft) { d.AckWithin = time.Minute })
	f.Deliver()
	remove(f, "b")
	f.Add(agents.Update{Name: "b", PlanModeRequired: new(true)})
	_, err := f.Reply(f.Engine, orchestrator.PlanApproval, request.RequestID, true, "c", "b")
	want.Code(t, err, orchestrator.Conflict)
	f.Clock.Advance(time.Hour)
	f.Deliver()
	want.Rows(t, f.Rows(`SELECT message_type FROM agent_message WHERE recipient = 'b'`))
	agent, err := agents.Get(t.Context(), f.Ledger, "b")
	if err != nil || !agent.PlanModeRequired {
		t.Errorf("%+v, %v", agent, err)
	}
}

// TestRemovedWithALongBacklog checks that a backlog of more than one batch is given up as a whole.
func TestRemovedWithALongBacklog(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	f.Set("bounce", "off")
	const n = 1201
	drafts := make([]orchestrator.Draft, n)
	for i := range drafts {
		drafts[i] = orchestrator.Draft{Sender: "a", Recipient: "b"}
	}
	messages.SendBatch(t.Context(), f.Ledger, drafts, false)
	f.Deliver()
	messages.SendBatch(t.Context(), f.Ledger, drafts, false)
	want.Equal(t, "given up", remove(f, "b"), 2*n)
	want.Rows(t, f.Rows(`SELECT status, count(*) FROM agent_message GROUP BY status`), fmt.Sprintf("failed %d", 2*n))
}
