package messages_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/threads"
)

// TestRepliesAnswerRequests checks that a reply with a verdict answers a request once, from its responder to the
// requester, with all consequences. Of several concurrent replies, one answers it.
func TestRepliesAnswerRequests(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "lead", "dev", "other")
	routers, ctx := f.OpenAll(2), enginetest.Deadline(t)
	for range 10 {
		asked := f.MustAsk(orchestrator.PlanApproval, "dev", "lead")
		answer := orchestrator.Draft{Sender: "lead", Recipient: "dev", Type: "done", ReplyTo: asked.MessageID,
			SessionID: enginetest.Room, Verdict: enginetest.Verdict(true)}
		errs := make(chan error, 3)
		var all sync.WaitGroup
		all.Go(func() { _, err := messages.Send(ctx, routers[0].Ledger, answer); errs <- err })
		all.Go(func() {
			_, err := threads.Post(ctx, routers[1].Ledger,
				threads.PostDraft{Session: "elsewhere", Sender: "lead", ReplyTo: asked.MessageID,
					Verdict: enginetest.Verdict(false),
					Payload: func([]string) (json.RawMessage, error) { return json.RawMessage(`"no"`), nil }})
			errs <- err
		})
		all.Go(func() {
			_, err := f.Reply(routers[1], orchestrator.PlanApproval, asked.RequestID, true, "lead", "dev")
			errs <- err
		})
		all.Wait()
		done := 0
		for range 3 {
			if err := <-errs; err == nil {
				done++
			} else {
				want.Code(t, err, orchestrator.Conflict)
			}
		}
		want.Equal(t, "answers that succeed", done, 1)
		want.Rows(t, f.Rows(`SELECT count(*), min(message_type), min(session_id) FROM agent_message WHERE reply_to = ?`,
			asked.MessageID), "1 plan_approval_response crew")
		want.Equal(t, "the answer is noted",
			f.Rows(`SELECT count(*) FROM team_requests q JOIN agent_message m ON m.message_id = q.answer_id
			WHERE q.request_id = ? AND q.status <> 'open' AND q.answered_at <> ''`, asked.RequestID)[0], "1")
	}
}

// TestRepliesThatAnswerNothing checks that replies follow the rules of a teammate's answer, that a refused answer
// leaves nothing, and that a reply without a decision is a plain message.
func TestRepliesThatAnswerNothing(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "lead", "dev", "other")
	asked := f.MustAsk(orchestrator.Shutdown, "lead", "dev")
	unclear := func(orchestrator.Asked) (*orchestrator.Verdict, error) {
		return nil, orchestrator.Errorf(orchestrator.InvalidParams, "unclear")
	}
	send := func(from, to string, verdict func(orchestrator.Asked) (*orchestrator.Verdict, error)) error {
		_, err := messages.Send(t.Context(), f.Ledger,
			orchestrator.Draft{Sender: from, Recipient: to, ReplyTo: asked.MessageID, Verdict: verdict})
		return err
	}
	before := f.Everything()
	for _, c := range []struct {
		from, to string
		verdict  func(orchestrator.Asked) (*orchestrator.Verdict, error)
		code     orchestrator.Code
	}{
		{"dev", "lead", unclear, orchestrator.InvalidParams},
		{"dev", "other", enginetest.Verdict(true), orchestrator.InvalidParams},
		{"other", "lead", enginetest.Verdict(true), orchestrator.PermissionDenied},
		{"lead", "dev", enginetest.Verdict(true), orchestrator.PermissionDenied},
	} {
		want.Code(t, send(c.from, c.to, c.verdict), c.code)
	}
	if f.Everything() != before {
		t.Error("a refused answer leaves something behind")
	}
	for _, ordinary := range []func() error{
		func() error { return send("dev", "lead", nil) },
		func() error {
			return send("dev", "lead", func(orchestrator.Asked) (*orchestrator.Verdict, error) { return nil, nil })
		},
		func() error { return send("dev", "other", unclear) },
		func() error { return send("other", "lead", unclear) },
	} {
		if err := ordinary(); err != nil {
			t.Error(err)
		}
	}
	want.Equal(t, "requests that are open", f.Rows(`SELECT count(*) FROM team_requests WHERE status = 'open'`)[0], "1")
	if err := send("dev", "lead", enginetest.Verdict(true)); err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "presence", f.Presence("dev"), "stopped")
	want.Code(t, send("dev", "lead", enginetest.Verdict(false)), orchestrator.Conflict)
	if err := send("dev", "lead", unclear); err != nil {
		t.Errorf("a remark on what is answered: %v", err)
	}
}

// TestReplyToARequestJoinsNoThread checks that a reply that answers a request does not join a thread, even if the
// request names one.
func TestReplyToARequestJoinsNoThread(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "lead", "dev")
	th := f.Thread("lead", "dev")
	asked, err := f.Ask(orchestrator.PlanApproval, "dev", "lead", func(d *orchestrator.Draft) { d.ThreadID = th.ID })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := messages.Send(t.Context(), f.Ledger, orchestrator.Draft{Sender: "lead", Recipient: "dev",
		ReplyTo: asked.MessageID, Verdict: enginetest.Verdict(true)}); err != nil {
		t.Fatal(err)
	}
	want.Rows(t, f.Rows(`SELECT recipient, message_type, coalesce(thread_id, '') FROM agent_message
		WHERE reply_to = ?`, asked.MessageID), "dev plan_approval_response ")
	want.Rows(t, f.Rows(`SELECT status FROM team_requests`), "approved")
}

// TestRepliesJoinTheirThread checks that a reply that joins a thread is a post there. It has a row in the thread and
// one for its recipient, with their events in order, also among other sends of one batch, and the answered message
// counts as answered.
func TestRepliesJoinTheirThread(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b", "c")
	th := f.Thread("a", "b")
	post := f.MustPost(th.ID, "a", "b")
	copyOf := f.Rows(`SELECT message_id FROM agent_message WHERE recipient = 'b'`)[0]
	draft := orchestrator.Draft{Sender: "b", Recipient: "a", Type: "done", ReplyTo: copyOf, IdempotencyKey: "once",
		TTL: time.Hour}
	outs := messages.SendBatch(t.Context(), f.Ledger, []orchestrator.Draft{{Sender: "c", Recipient: "a"}, draft,
		{Sender: "c", Recipient: "b"}}, false)
	if outs[0].Refused != nil || outs[1].Refused != nil || outs[2].Refused != nil {
		t.Fatal(outs)
	}
	want.Equal(t, "joined", outs[1].Sent.Joined, th.ID)
	want.Rows(t, f.Rows(`SELECT recipient, status, message_id = ?1, reply_to = ?2, session_id, hops, expires_at <> ''
		FROM agent_message
		WHERE sender = 'b' ORDER BY seq`, outs[1].Sent.MessageID, post.MessageID),
		"thread:"+th.ID+" delivered 0 1 room 1 0", "a pending 1 1 room 1 1")
	want.Rows(t, f.Rows(`SELECT group_concat(e.event) FROM (SELECT * FROM message_trace ORDER BY id) e
		JOIN agent_message m USING (message_id)
		WHERE m.seq > (SELECT seq FROM agent_message WHERE message_id = ?) GROUP BY m.seq ORDER BY m.seq`, copyOf),
		"created", "created,delivered", "created", "created")
	again, err := messages.Send(t.Context(), f.Ledger, draft)
	want.Equal(t, "a repeat", fmt.Sprint(again.MessageID == outs[1].Sent.MessageID, again.Idempotent,
		again.Joined == th.ID, err), "true true true <nil>")
	ms, err := messages.Find(t.Context(), f.Ledger, copyOf)
	if err != nil {
		t.Fatal(err)
	}
	receipts, err := messages.Receipts(t.Context(), f.Ledger, ms)
	if err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "the copy is", receipts[0][len(receipts[0])-1].What, "answered")
	// A reply does not join if it names its own thread, goes to somebody else, or the thread is closed.
	outside := func(change func(*orchestrator.Draft)) string {
		t.Helper()
		d := draft
		d.IdempotencyKey = ""
		change(&d)
		s, err := messages.Send(t.Context(), f.Ledger, d)
		if err != nil {
			t.Fatal(err)
		}
		want.Equal(t, "joined", s.Joined, "")
		return s.Outside
	}
	want.Equal(t, "with a thread of its own", outside(func(d *orchestrator.Draft) { d.ThreadID = "deploy" }), "")
	want.Equal(t, "outside of threads", outside(func(d *orchestrator.Draft) { d.Direct = true }), "")
	want.Equal(t, "to somebody else", outside(func(d *orchestrator.Draft) { d.Recipient = "c" }),
		"c does not take part in the thread of the answered message")
	want.Equal(t, "from somebody else", outside(func(d *orchestrator.Draft) { d.Sender = "c" }),
		"c does not take part in the thread of the answered message")
	f.CloseThread(th.ID)
	if why := outside(func(*orchestrator.Draft) {}); !strings.Contains(why, "was closed at") {
		t.Errorf("to a closed one: %q", why)
	}
	want.Equal(t, "posts", f.Rows(`SELECT count(*) FROM agent_message WHERE recipient LIKE 'thread:%'`)[0], "2")
}

// TestPostsAreAnsweredByParticipants checks that a participant of a thread can answer a post that does not mention
// it. For others the message does not exist.
func TestPostsAreAnsweredByParticipants(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b", "c")
	th := f.Thread("a", "b")
	post := f.MustPost(th.ID, "a")
	answer := func(sender string) (orchestrator.Sent, error) {
		return messages.Send(ledger.WithIdentity(t.Context(), sender), f.Ledger,
			orchestrator.Draft{Sender: sender, Recipient: "a", ReplyTo: post.MessageID})
	}
	sent, err := answer("b")
	if err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "joined", sent.Joined, th.ID)
	_, err = answer("c")
	want.Code(t, err, orchestrator.NotFound)
	_, err = threads.Post(t.Context(), f.Ledger,
		threads.PostDraft{Session: enginetest.Room, Sender: "c", ReplyTo: post.MessageID})
	want.Code(t, err, orchestrator.NotFound)
}
