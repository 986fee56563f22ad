package removal_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/bridge/letters"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/questions"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/retention"
	"mailroom/orchestrator/teams"
	"mailroom/orchestrator/threads"
)

// succeed removes an agent, and adds another one with its name a moment later.
func succeed(f *enginetest.Fixture, name string) {
	f.T.Helper()
	f.Clock.Advance(time.Second)
	remove(f, name)
	f.Clock.Advance(time.Second)
	f.Add(agents.Update{Name: name})
	f.Clock.Advance(time.Second)
}

// TestASuccessorHasNothingOfTheFormer checks that an agent with the name of a removed one sees none of the messages
// that the removed agent sent and received, and cannot change them, in the table or in the archive.
func TestASuccessorHasNothingOfTheFormer(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b", "c")
	ctx := t.Context()
	read, sent := f.Send("a", "b"), f.Send("b", "a")
	f.Deliver()
	f.Take("b")
	th := f.Thread("b", "a")
	post := f.MustPost(th.ID, "b", "a").MessageID
	dead := f.Send("b", "c", func(d *orchestrator.Draft) { d.TTL = time.Second })
	f.Clock.Advance(2 * time.Second)
	f.Deliver()
	later := f.Send("b", "c", func(d *orchestrator.Draft) { d.Delay = 48 * time.Hour })
	own := orchestrator.Draft{Sender: "b", Recipient: "a", Type: "note", Payload: []byte(`1`), ID: "bs-own"}
	f.SQL(`INSERT INTO agent_message (message_id, sender, recipient, message_type, payload)
		VALUES ('bs-own', 'b', 'a', 'note', '1')`)
	f.Deliver()
	f.Clock.Advance(time.Second)
	before, err := messages.LastEvent(ctx, f.Ledger)
	if err != nil {
		t.Fatal(err)
	}
	succeed(f, "b")
	fresh := f.Send("b", "a")
	f.Send("a", "b")

	for _, place := range []string{"table", "archive"} {
		for _, id := range []string{read, sent, post, dead, later, "bs-own"} {
			for what, do := range map[string]func() error{
				"seen":         func() error { _, err := threads.OwnMessage(ctx, f.Ledger, id, "b"); return err },
				"cancelled":    func() error { _, err := messages.Cancel(ctx, f.Ledger, id, "b"); return err },
				"acknowledged": func() error { _, err := messages.Acknowledge(ctx, f.Ledger, id, "b"); return err },
				"handed back":  func() error { _, _, err := messages.Release(ctx, f.Ledger, id, "b"); return err },
				"replayed":     func() error { _, err := messages.Replay(ctx, f.Ledger, id, "b"); return err },
				"traced":       func() error { _, err := overview.OwnTrace(ctx, f.Ledger, id, "b"); return err },
				"waited for": func() error {
					_, _, err := reading.Wait(ctx, f.Ledger,
						reading.Options{Recipient: "b", Limit: 1, Peek: true, ReplyTo: id})
					return err
				},
				"answered": func() error {
					_, err := messages.Send(ledger.WithIdentity(ctx, "b"), f.Ledger,
						orchestrator.Draft{Sender: "b", Recipient: "c", ReplyTo: id})
					return err
				},
				"answered by a post": func() error {
					_, err := threads.Post(ctx, f.Ledger,
						threads.PostDraft{Session: enginetest.Room, Sender: "b", ReplyTo: id, Payload: says1})
					return err
				},
			} {
				if err := do(); orchestrator.CodeOf(err) != orchestrator.NotFound {
					t.Errorf("%s in the %s is %s: %v", id, place, what, err)
				}
			}
		}
		found, err := messages.SearchOwn(ctx, f.Ledger,
			messages.Search{Agent: "b", Limit: 99, Says: func(*orchestrator.Message) bool { return true }})
		want.Equal(t, "found in the "+place, fmt.Sprint(len(found.Messages), err), "2 <nil>")
		outbox, _, err := messages.History(ctx, f.Ledger, messages.HistoryFilter{Sender: "b", Own: true, Limit: 99})
		want.Equal(t, "sent in the "+place, fmt.Sprint(len(outbox), err), "1 <nil>")
		all, _, err := messages.History(ctx, f.Ledger, messages.HistoryFilter{Sender: "b", Limit: 99})
		want.Equal(t, "sent by either in the "+place, fmt.Sprint(len(all) >= 6, err), "true <nil>")
		talk, _, err := messages.History(ctx, f.Ledger, messages.HistoryFilter{ThreadID: th.ID, Party: "b", Limit: 99})
		want.Equal(t, "of the thread in the "+place, fmt.Sprint(len(talk), err), "0 <nil>")
		if _, err := threads.OwnMessage(ctx, f.Ledger, fresh, "b"); err != nil {
			t.Error(err)
		}
		if place == "archive" {
			break
		}
		replayed, _, err := messages.ReplayAll(ctx, f.Ledger,
			messages.DeadLetterFilter{Sender: "b", Own: true, Limit: 99})
		want.Equal(t, "replayed", fmt.Sprint(len(replayed), err), "0 <nil>")
		_, err = messages.Send(ctx, f.Ledger, own)
		want.Code(t, err, orchestrator.Conflict)
		f.ArchiveAll()
	}
	events, _, _, err := messages.Events(ctx, f.Ledger, messages.Cursor{}, "b", 1000)
	since, _, _, err2 := messages.Events(ctx, f.Ledger, before, "b", 1000)
	if err = errors.Join(err, err2); err != nil || len(events) == 0 || len(events) != len(since) {
		t.Errorf("events of the successor: %+v, %v; only %d of them are its own", events, err, len(since))
	}
}

// says1 is the payload of a post.
func says1([]string) (json.RawMessage, error) { return json.RawMessage(`1`), nil }

// TestASuccessorHearsNothingOfTheFormer checks that reports and answers about the messages of a removed agent do not
// reach a later agent of its name.
func TestASuccessorHearsNothingOfTheFormer(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	ctx := t.Context()
	f.AddWired("x")
	f.Set("retry.max_retries", "1")
	f.Wire.Set(enginetest.Failing("down"))
	unanswered, got := f.Send("b", "a", func(d *orchestrator.Draft) { d.AckWithin = 20 * 24 * time.Hour }),
		f.Send("a", "b")
	f.Deliver()
	f.Take("b")
	f.Clock.Advance(8 * 24 * time.Hour) // the due acknowledgement of an archived message
	if _, err := retention.ClearOld(ctx, f.Ledger, retention.ClearOptions{}); err != nil {
		t.Fatal(err)
	}
	failed := f.Send("b", "x")
	f.Deliver()
	f.Send("b", "a", func(d *orchestrator.Draft) { d.TTL = time.Hour }) // this message expires unread
	plan := f.MustAsk(orchestrator.PlanApproval, "b", "x")
	th := f.Thread("b", "a")
	post := f.MustPost(th.ID, "b").MessageID
	succeed(f, "b")
	for range 9 {
		f.Clock.Advance(time.Minute)
		f.Deliver()
	}
	f.Clock.Advance(30 * 24 * time.Hour)
	f.Deliver()
	want.Equal(t, "status", f.Message(failed).Status, orchestrator.Failed)
	for _, id := range []string{failed, plan.MessageID} { // the administrator can send it again
		if _, err := messages.Replay(ctx, f.Ledger, id, ""); err != nil {
			t.Fatal(err)
		}
	}
	want.Equal(t, "the request", f.Rows(`SELECT status FROM team_requests`)[0], "void")
	for range 3 {
		f.Deliver()
		f.Clock.Advance(time.Hour)
	}
	want.Equal(t, "status", f.Message(failed).Status, orchestrator.Failed)
	for _, id := range []string{unanswered, got} {
		_, err := messages.Send(ledger.WithIdentity(ctx, "a"), f.Ledger,
			orchestrator.Draft{Sender: "a", Recipient: "b", ReplyTo: id})
		want.Code(t, err, orchestrator.UnknownRecipient)
		_, err = threads.Post(ctx, f.Ledger,
			threads.PostDraft{Session: enginetest.Room, Sender: "a", ReplyTo: id, Payload: says1})
		want.Code(t, err, orchestrator.UnknownRecipient)
	}
	if _, _, err := threads.AddParticipant(ctx, f.Ledger, threads.Change{Session: enginetest.Room, Thread: th.ID},
		"b"); err != nil {
		t.Fatal(err)
	}
	posted, err := threads.Post(ctx, f.Ledger,
		threads.PostDraft{Session: enginetest.Room, Thread: th.ID, Sender: "a", ReplyTo: post, Payload: says1})
	want.Equal(t, "told of the answer", fmt.Sprint(posted.Mentions, err), "[] <nil>")
	want.Rows(t, f.Rows(`SELECT message_type FROM agent_message WHERE recipient = 'b' AND status <> 'failed'`))
	if _, err := messages.Send(ctx, f.Ledger,
		orchestrator.Draft{Sender: "a", Recipient: "b", Type: "note"}); err != nil {
		t.Errorf("a message of its own: %v", err)
	}
}

// TestASuccessorHasNoRequestsOfTheFormer checks that a request of a removed agent, or to one, does not belong to a
// later agent of its name, whether or not it was answered.
func TestASuccessorHasNoRequestsOfTheFormer(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	ctx := t.Context()
	answered, open, own := f.MustAsk(orchestrator.Shutdown, "a", "b"), f.MustAsk(orchestrator.PlanApproval, "a", "b"),
		f.MustAsk(orchestrator.PlanApproval, "b", "a")
	f.Deliver()
	f.Take("b")
	if _, err := f.Reply(f.Engine, orchestrator.Shutdown, answered.RequestID, false, "b", "a"); err != nil {
		t.Fatal(err)
	}
	unread := f.MustAsk(orchestrator.Shutdown, "a", "b")
	answer := func(asked teams.Sent, kind orchestrator.RequestKind) error {
		_, err := f.Reply(f.Engine, kind, asked.RequestID, true, "b", "a")
		return err
	}
	stranger := func(when string) {
		t.Helper()
		for _, asked := range []teams.Sent{answered, open, own, unread} {
			for _, kind := range []orchestrator.RequestKind{orchestrator.Shutdown, orchestrator.PlanApproval} {
				if err := answer(asked, kind); orchestrator.CodeOf(err) != orchestrator.NotFound ||
					strings.Contains(err.Error(), asked.MessageID) {
					t.Errorf("%s: %v", when, err)
				}
			}
		}
	}
	f.Clock.Advance(time.Second)
	remove(f, "b")
	stranger("removed")
	f.Clock.Advance(time.Second)
	f.Add(agents.Update{Name: "b"})
	f.Clock.Advance(time.Second)
	stranger("added again")
	if _, err := messages.Replay(ctx, f.Ledger, unread.MessageID, ""); err != nil {
		// The replayed message is to the later agent.
		t.Fatal(err)
	}
	if err := answer(unread, orchestrator.Shutdown); err != nil {
		t.Error(err)
	}
	f.Clock.Advance(time.Second)
	if err := answer(f.MustAsk(orchestrator.PlanApproval, "a", "b"), orchestrator.PlanApproval); err != nil {
		t.Error(err)
	}
}

// TestASuccessorHasItsOwnMail checks that messages that were held for a removed name, or sent again since an agent
// with that name was added, belong to that agent, and so do its own messages.
func TestASuccessorHasItsOwnMail(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	ctx := t.Context()
	unread := f.Send("a", "b")
	f.Deliver()
	remove(f, "b")
	f.Clock.Advance(time.Second)
	held := f.Send("a", "b", func(d *orchestrator.Draft) { d.HoldUnknown = true })
	f.Clock.Advance(time.Second)
	f.Add(agents.Update{Name: "b"})
	f.Clock.Advance(time.Second)
	if _, err := messages.Replay(ctx, f.Ledger, unread, ""); err != nil {
		t.Fatal(err)
	}
	f.Deliver()
	for _, id := range []string{held, unread} {
		if _, err := threads.OwnMessage(ctx, f.Ledger, id, "b"); err != nil {
			t.Error(err)
		}
		if _, err := messages.Acknowledge(ctx, f.Ledger, id, "b"); err != nil {
			t.Error(err)
		}
		if _, err := messages.Send(ledger.WithIdentity(ctx, "b"), f.Ledger,
			orchestrator.Draft{Sender: "b", Recipient: "a", ReplyTo: id}); err != nil {
			t.Error(err)
		}
	}
	found, err := messages.SearchOwn(ctx, f.Ledger,
		messages.Search{Agent: "b", Limit: 99, Says: func(*orchestrator.Message) bool { return true }})
	want.Equal(t, "found", fmt.Sprint(len(found.Messages), err), "4 <nil>")
	pending := f.Send("b", "a")
	if _, err := messages.Cancel(ctx, f.Ledger, pending, "b"); err != nil {
		t.Error(err)
	}
	dead := f.Send("b", "a", func(d *orchestrator.Draft) { d.TTL = time.Second })
	f.Clock.Advance(2 * time.Second)
	f.Deliver()
	want.Rows(t, f.Rows(`SELECT json_extract(payload, '$.message_id') FROM agent_message WHERE recipient = 'b'
		AND message_type = 'error_report'`), dead)
}

// TestASuccessorHasNoQuestionsOfTheFormer checks that the questions of a removed agent to the user, and later
// questions from its messages, belong to no agent, and that no answer goes to a later agent of its name.
func TestASuccessorHasNoQuestionsOfTheFormer(t *testing.T) {
	t.Parallel()
	f, devices := enginetest.NewPhones(t, 1)
	ctx := t.Context()
	f.Add(agents.Update{Name: "a"})
	answered := f.Question(devices)
	asking := f.Send("builder", "user", func(d *orchestrator.Draft) { d.Type = "question" })
	read := f.Question(devices, func(d *questions.Draft) { d.MessageID = asking })
	for _, id := range []string{answered.ID, read.ID} {
		if _, err := questions.Answer(ctx, f.Ledger, id, devices[0], "for the former one"); err != nil {
			t.Fatal(err)
		}
		if err := questions.AnswerRead(ctx, f.Ledger, id); err != nil {
			t.Fatal(err)
		}
	}
	waiting := f.Send("builder", "user", func(d *orchestrator.Draft) { d.Type = "question" })
	succeed(f, "builder")
	list, err := questions.Unreturned(ctx, f.Ledger, "")
	want.Equal(t, "answers that go back", fmt.Sprint(len(list), err), "0 <nil>")
	_, err = questions.Own(ctx, f.Ledger, answered.ID, "builder")
	want.Code(t, err, orchestrator.NotFound)
	_, err = questions.Cancel(ctx, f.Ledger, answered.ID, "builder")
	want.Code(t, err, orchestrator.NotFound)
	own := f.Question(devices)
	late := questions.Draft{ID: "q-late", Asker: "builder", Body: "c2VhbGVk", TTL: time.Hour, MessageID: waiting}
	_, _, err = questions.Ask(ctx, f.Ledger, late)
	want.Code(t, err, orchestrator.UnknownSender)
	asked, err := questions.List(ctx, f.Ledger, questions.Filter{Asker: "builder", Own: true})
	if err != nil || len(asked) != 1 || asked[0].ID != own.ID {
		t.Errorf("its questions: %+v, %v", asked, err)
	}
	_, err = overview.OwnTrace(ctx, f.Ledger, answered.ID, "builder")
	want.Code(t, err, orchestrator.NotFound)
	if stories, err := overview.OwnTrace(ctx, f.Ledger, own.ID, "builder"); err != nil || len(stories) == 0 {
		t.Errorf("the story of its own: %v, %v", stories, err)
	}
	all, err := questions.List(ctx, f.Ledger, questions.Filter{Asker: "builder"})
	if err != nil || len(all) != 3 {
		t.Errorf("those of either: %+v, %v", all, err)
	}
}

// TestASuccessorIsShownNothingThatWasPlacedForTheFormer checks that a later agent is not shown the messages that were
// placed for a removed agent, although their files may still exist.
func TestASuccessorIsShownNothingThatWasPlacedForTheFormer(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a")
	f.AddWired("b")
	f.Wire.Set(enginetest.Marking)
	f.Send("a", "b")
	f.Deliver()
	f.Clock.Advance(time.Second)
	remove(f, "b")
	f.AddWired("b")
	f.Clock.Advance(time.Second)
	own := f.Send("a", "b")
	f.Deliver()
	in, err := letters.Read(t.Context(), f.Ledger, letters.Request{Agent: "b", Target: "wire:b", Limit: 9, Mark: true})
	if err != nil || len(in.Messages) != 1 || in.Messages[0].ID != own {
		t.Errorf("%+v, %v", in, err)
	}
}

// TestASuccessorReadsNothingOfAnyNumber checks that a hand-written number that is out of range shows no message of a
// removed agent to a later agent of its name, and hides none of the later agent's messages.
func TestASuccessorReadsNothingOfAnyNumber(t *testing.T) {
	t.Parallel()
	for _, number := range []string{"9007199254740991", "9007199254740992", "9007199254740999", "4611686018427387999"} {
		for _, place := range []string{"table", "archive"} {
			f := enginetest.New(t, "a", "b")
			ctx := t.Context()
			f.SQL(`INSERT INTO agent_message (seq, message_id, sender, recipient, payload) VALUES (` + number +
				`, 'odd', 'a', 'b', '1')`)
			old := []string{"odd", f.Send("a", "b"), f.Send("b", "a")}
			f.Deliver()
			f.Take("b")
			f.Take("a")
			if place == "archive" {
				f.ArchiveAll()
			}
			succeed(f, "b")
			for _, id := range old {
				_, err := threads.OwnMessage(ctx, f.Ledger, id, "b")
				want.Code(t, err, orchestrator.NotFound)
			}
			sent := f.Send("b", "a")
			f.Deliver()
			if _, err := threads.OwnMessage(ctx, f.Ledger, sent, "b"); err != nil {
				t.Errorf("%s in the %s: its own: %v", number, place, err)
			}
		}
	}
}
