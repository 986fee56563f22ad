package questions_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
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
	"mailroom/orchestrator/teams"
)

// A message to the user is delivered through the transport person; a message that asks needs a phone.
func TestMessagesToTheUser(t *testing.T) {
	t.Parallel()
	f, _ := enginetest.NewPhones(t, 0)
	for _, asking := range []string{"QUERY", "question", "plan_approval_request", "shutdown_request"} {
		_, err := messages.Send(t.Context(), f.Ledger,
			orchestrator.Draft{Sender: "builder", Recipient: "User", Type: asking, Payload: []byte(`{}`)})
		want.Code(t, err, orchestrator.Unavailable)
	}
	id := f.Send("builder", "user")
	f.Deliver()
	if got := f.User.IDs(); len(got) != 1 || got[0] != id || f.Message(id).Status != orchestrator.Delivered {
		t.Errorf("%q, %+v", got, f.Message(id))
	}
	_, _, err := reading.Wait(t.Context(), f.Ledger, reading.Options{Recipient: "user", Limit: 1})
	want.Code(t, err, orchestrator.PermissionDenied)
	for _, forge := range []func() error{
		func() error {
			_, err := messages.Send(ledger.WithIdentity(t.Context(), "user"), f.Ledger,
				orchestrator.Draft{Sender: "user", Recipient: "builder", Type: "RESULT", Payload: []byte(`{}`)})
			return err
		},
		func() error {
			_, err := teams.Send(t.Context(), f.Ledger,
				orchestrator.Draft{Sender: "user", Recipient: "builder", Type: "message", Payload: []byte(`{}`),
					SessionID: "default"})
			return err
		},
		func() error {
			_, _, err := questions.AlertUser(ledger.WithIdentity(t.Context(), "user"), f.Ledger,
				questions.AlertDraft{ID: "a-1", Sender: "user", Body: "x"})
			return err
		},
	} {
		want.Code(t, forge(), orchestrator.UnknownSender)
	}
}

// The trace records once that a message to the user waits for a device.
func TestWaitForADeviceIsInTheTrace(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "builder")
	f.User.Set(enginetest.Refusing(orchestrator.ErrNoDevice))
	id := f.Send("builder", "user")
	for range 3 {
		f.Deliver()
		f.Clock.Advance(time.Hour)
	}
	want.Rows(t, f.Rows(`SELECT event, error FROM message_trace WHERE message_id = ? AND event NOT IN
		('created', 'overdue') ORDER BY id`, id), "claimed ", "held "+orchestrator.ErrNoDevice.Error())
}

// The answer to a question from a message is returned once, whatever happens to the returning process.
func TestAnswersGoBack(t *testing.T) {
	t.Parallel()
	f, ids := enginetest.NewPhones(t, 1)
	id := f.Send("builder", "user", func(d *orchestrator.Draft) { d.Type = "QUERY" })
	f.Deliver()
	q := f.Question(ids, func(d *questions.Draft) { d.MessageID = id })
	again := f.Question(ids, func(d *questions.Draft) { d.MessageID = id })
	if again.ID != q.ID {
		t.Errorf("one message made two questions: %s and %s", q.ID, again.ID)
	}
	if _, err := questions.Answer(t.Context(), f.Ledger, q.ID, ids[0], "sealed"); err != nil {
		t.Fatal(err)
	}
	calls := 0
	f.User.Back = func(ctx context.Context, l *ledger.Ledger) error {
		calls++
		list, err := questions.Unreturned(ctx, l, "")
		if err != nil || len(list) != 1 || list[0].ID != q.ID {
			t.Errorf("%+v, %v", list, err)
		}
		reply := questions.UserReply{Question: q.ID,
			Draft: orchestrator.Draft{Recipient: "builder", Type: "RESULT",
				Payload: json.RawMessage(`{"message":"yes"}`), ReplyTo: id}}
		for range 2 {
			if err := questions.ReplyAsUser(ctx, l, reply); err != nil {
				t.Error(err)
			}
		}
		return nil
	}
	f.Deliver()
	f.Deliver()
	want.Equal(t, "calls", calls, 1)
	want.Rows(t, f.Rows(`SELECT sender, recipient, message_type, status FROM agent_message WHERE reply_to = ?`, id),
		"user builder RESULT delivered")
	if got, _ := questions.Get(t.Context(), f.Ledger, q.ID); got.ReturnedAt == "" {
		t.Errorf("%+v", got)
	}
}

// Reading an answer before it is returned does not prevent its return, and an answer that cannot be returned is
// reported.
func TestReadAnswersGoBack(t *testing.T) {
	t.Parallel()
	f, ids := enginetest.NewPhones(t, 1)
	id := f.Send("builder", "user", func(d *orchestrator.Draft) { d.Type = "QUERY" })
	f.Deliver()
	q := f.Question(ids, func(d *questions.Draft) { d.MessageID = id })
	if _, err := questions.Answer(t.Context(), f.Ledger, q.ID, ids[0], "sealed"); err != nil {
		t.Fatal(err)
	}
	if err := questions.AnswerRead(t.Context(), f.Ledger, q.ID); err != nil {
		t.Fatal(err)
	}
	if list, err := questions.Unreturned(t.Context(), f.Ledger, ""); err != nil || len(list) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	if list, err := questions.Unreturned(t.Context(), f.Ledger, q.ID); err != nil || len(list) != 0 {
		t.Fatalf("%+v, %v", list, err)
	}
	reply := questions.UserReply{Question: q.ID,
		Draft: orchestrator.Draft{Recipient: "builder", Type: "RESULT", Payload: json.RawMessage(`1`),
			ReplyTo: "msg-none"}}
	if err := questions.ReplyAsUser(t.Context(), f.Ledger, reply); err != nil {
		t.Fatal(err)
	}
	want.Rows(t, f.Rows(`SELECT event FROM message_trace WHERE message_id = ?
		AND error LIKE '%could not be sent%msg-none%'`, q.ID), "failed")
}

// A push or a message to the user does not expire because it was not read in the table.
func TestTellingDoesNotExpire(t *testing.T) {
	t.Parallel()
	f, ids := enginetest.NewPhones(t, 1)
	id := f.Send("builder", "user", func(d *orchestrator.Draft) { d.TTL = time.Hour })
	q := f.Question(ids)
	f.Pushes()
	f.Clock.Advance(30 * time.Minute)
	if _, err := questions.Cancel(t.Context(), f.Ledger, q.ID, ""); err != nil {
		t.Fatal(err)
	}
	f.Pushes()
	f.Clock.Advance(48 * time.Hour)
	f.Deliver()
	want.Equal(t, "the message", f.Message(id).Status, orchestrator.Delivered)
	want.Rows(t, f.Rows(`SELECT status, count(*) FROM agent_message WHERE message_type = 'push' GROUP BY 1`),
		"delivered 2")
	want.Rows(t, f.Rows(`SELECT count(*) FROM agent_message WHERE message_type = 'error_report'`), "0")
}

// The alerts of an agent in a loop are limited.
func TestAlertsAreBounded(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "builder", "reviewer")
	tell := func(sender string) error {
		id, err := questions.NewSignalID(f.Ledger, "a-")
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = questions.AlertUser(t.Context(), f.Ledger, questions.AlertDraft{ID: id, Sender: sender, Body: "x"})
		return err
	}
	for range 100 {
		if err := tell("builder"); err != nil {
			t.Fatal(err)
		}
	}
	want.Code(t, tell("builder"), orchestrator.Unavailable)
	if err := tell("reviewer"); err != nil {
		t.Error(err)
	}
	f.Clock.Advance(time.Hour)
	if err := tell("builder"); err != nil {
		t.Error(err)
	}
}

// The user's approval of a team request counts as that of a teammate, and adds no member to the team.
func TestUserAnswersTheTeam(t *testing.T) {
	t.Parallel()
	f, ids := enginetest.NewPhones(t, 1)
	f.Add(agents.Update{Name: "builder", PlanModeRequired: new(true)})
	sent, err := teams.Ask(t.Context(), f.Ledger, teams.Request{
		Kind: orchestrator.PlanApproval,
		Draft: orchestrator.Draft{Sender: "builder", Recipient: "user", Type: orchestrator.PlanApprovalRequest,
			SessionID: "default"},
		Payload: func(id string) (json.RawMessage, error) {
			return json.RawMessage(`{"type":"plan_approval_request","requestId":"` + id + `"}`), nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	f.Deliver()
	q := f.Question(ids, func(d *questions.Draft) { d.MessageID = sent.MessageID })
	if _, err := questions.Answer(t.Context(), f.Ledger, q.ID, ids[0], "sealed"); err != nil {
		t.Fatal(err)
	}
	reply := questions.UserReply{
		Question: q.ID, Team: &teams.Reply{Kind: orchestrator.PlanApproval, RequestID: sent.RequestID, Approve: true},
		Draft: orchestrator.Draft{Recipient: "builder", Type: "plan_approval_response", SessionID: "default",
			Payload: json.RawMessage(`{"type":"plan_approval_response","approve":true}`)},
	}
	if err := questions.ReplyAsUser(t.Context(), f.Ledger, reply); err != nil {
		t.Fatal(err)
	}
	if a := f.Agent("builder"); a.PlanModeRequired {
		t.Error("the plan was approved, and the agent must still have its plans approved")
	}
	want.Rows(t, f.Rows(`SELECT status FROM team_requests`), "approved")
	want.Rows(t, f.Rows(`SELECT count(*) FROM presence WHERE agent = 'user'`), "0")
	f.Clock.Advance(time.Second)
	if list, err := questions.Unreturned(t.Context(), f.Ledger, ""); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}

// The sender of a message that asked the user is notified when the question expires. A message in the form of a team
// request that is not a team's request gets a plain answer.
func TestUserDoesNotAnswer(t *testing.T) {
	t.Parallel()
	f, ids := enginetest.NewPhones(t, 1)
	first := f.Send("builder", "user", func(d *orchestrator.Draft) { d.Type = "QUERY" })
	second := f.Send("builder", "user", func(d *orchestrator.Draft) { d.Type = "plan_approval_request" })
	f.Deliver()
	f.Question(ids, func(d *questions.Draft) { d.MessageID = first })
	plan := f.Question(ids, func(d *questions.Draft) { d.MessageID, d.TTL = second, 2*time.Hour })
	f.Clock.Advance(time.Hour)
	f.Deliver()
	want.Rows(t, f.Rows(`SELECT recipient, payload ->> 'error', payload ->> 'message_id' FROM agent_message
		WHERE message_type = 'error_report'`),
		"builder expired "+first)
	if _, err := questions.Answer(t.Context(), f.Ledger, plan.ID, ids[0], "sealed"); err != nil {
		t.Fatal(err)
	}
	err := questions.ReplyAsUser(t.Context(), f.Ledger, questions.UserReply{
		Question: plan.ID, Team: &teams.Reply{Kind: orchestrator.PlanApproval, RequestID: "req-none", Approve: true},
		Draft: orchestrator.Draft{Recipient: "builder", Type: "plan_approval_response", SessionID: "default",
			Payload: json.RawMessage(`{}`), ReplyTo: second},
	})
	if err != nil {
		t.Fatal(err)
	}
	want.Rows(t, f.Rows(`SELECT sender, message_type FROM agent_message WHERE reply_to = ?`, second),
		"user plan_approval_response")
}

// A test push goes through the device's transport, once.
func TestTryDevices(t *testing.T) {
	t.Parallel()
	f, ids := enginetest.NewPhones(t, 2)
	f.Wire.Set(func(_ context.Context, a orchestrator.Attempt) []error {
		if a.Recipient == "device:"+ids[0] {
			return enginetest.Failing("500")(t.Context(), a)
		}
		return []error{nil}
	})
	trials, err := delivery.TryDevices(t.Context(), f.Ledger)
	if err != nil || len(trials) != 2 || trials[0].Delivered == trials[1].Delivered {
		t.Fatalf("%+v, %v", trials, err)
	}
	f.Clock.Advance(time.Hour)
	if got := f.Pushes(); len(got) != 1 {
		t.Errorf("a test was repeated: %q", got)
	}
	if d := device(f, ids[0]); d.PushOutcome != "500" {
		t.Errorf("%+v", d)
	}
}

// A question has a story and an explanation under its ID, including those of its pushes.
func TestStoryOfAQuestion(t *testing.T) {
	t.Parallel()
	f, ids := enginetest.NewPhones(t, 1)
	q := f.Question(ids)
	f.Pushes()
	reasons, err := overview.Why(t.Context(), f.Ledger, q.ID)
	if err != nil || len(reasons) != 2 ||
		!strings.Contains(reasons[0].Rule, "push services accepted 1 of 1 push") ||
		!strings.Contains(reasons[1].Where, "push service") {
		t.Fatalf("%+v, %v", reasons, err)
	}
	if _, err := questions.Answer(t.Context(), f.Ledger, q.ID, ids[0], "sealed"); err != nil {
		t.Fatal(err)
	}
	stories, err := overview.Trace(t.Context(), f.Ledger, q.ID)
	if err != nil || len(stories) != 2 || stories[0].Gone || stories[0].Message.Status != "answered" ||
		len(stories[0].Events) != 2 ||
		len(stories[0].Receipts) != 2 || stories[0].Receipts[1].What != "answered" ||
		stories[0].Receipts[1].Evidence != "signal_questions.ended_at" {
		t.Fatalf("%+v, %v", stories, err)
	}
	if _, err := overview.Why(t.Context(), f.Ledger, "q-nothing"); orchestrator.CodeOf(err) != orchestrator.NotFound {
		t.Error(err)
	}
}

// Agents cannot use the transports of the user and of the user's devices.
func TestAgentsAreNotPushedTo(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t)
	for _, target := range []string{"person", "push:d-1", "ntfy:ntfy"} {
		_, _, err := agents.Add(t.Context(), f.Ledger, agents.Update{Name: "a", Deliver: &target})
		want.Code(t, err, orchestrator.InvalidParams)
		_, _, err = agents.Add(t.Context(), f.Ledger, agents.Update{Name: "a", Fallback: &target})
		want.Code(t, err, orchestrator.InvalidParams)
		if err != nil && !strings.Contains(err.Error(), "for agents") {
			t.Error(err)
		}
	}
}

// The user's answer is returned however long the conversation is, and also to an agent that named a request of
// another. If it cannot be returned, that is reported.
func TestAnswersThatAreHardToReturn(t *testing.T) {
	t.Parallel()
	f, ids := enginetest.NewPhones(t, 1)
	f.Set("hops.limit", "1")
	first := f.Send("builder", "reviewer")
	f.Deliver()
	asked := f.Send("reviewer", "user", func(d *orchestrator.Draft) { d.Type, d.ReplyTo = "QUERY", first })
	plan := f.Send("builder", "user", func(d *orchestrator.Draft) { d.Type = "plan_approval_request" })
	gone := f.Send("builder", "user", func(d *orchestrator.Draft) { d.Type = "QUERY" })
	foreign, err := teams.Ask(t.Context(), f.Ledger, teams.Request{
		Kind: orchestrator.PlanApproval,
		Draft: orchestrator.Draft{Sender: "builder", Recipient: "reviewer", Type: orchestrator.PlanApprovalRequest,
			SessionID: "default"},
		Payload: func(id string) (json.RawMessage, error) { return json.RawMessage(`{"requestId":"` + id + `"}`), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	f.Deliver()
	answered := func(message string, reply questions.UserReply) {
		t.Helper()
		q := f.Question(ids, func(d *questions.Draft) { d.MessageID = message })
		if _, err := questions.Answer(t.Context(), f.Ledger, q.ID, ids[0], "sealed"); err != nil {
			t.Fatal(err)
		}
		reply.Question = q.ID
		if err := questions.ReplyAsUser(t.Context(), f.Ledger, reply); err != nil {
			t.Fatal(err)
		}
	}
	answered(asked, questions.UserReply{Draft: orchestrator.Draft{Recipient: "reviewer", Type: "RESULT",
		Payload: json.RawMessage(`1`), ReplyTo: asked}})
	answered(plan, questions.UserReply{
		Draft: orchestrator.Draft{Recipient: "builder", Type: "plan_approval_response", SessionID: "default",
			Payload: json.RawMessage(`{}`), ReplyTo: plan},
		Team: &teams.Reply{Kind: orchestrator.PlanApproval, RequestID: foreign.RequestID, Approve: true},
	})
	answered(gone, questions.UserReply{Draft: orchestrator.Draft{Recipient: "builder", Type: "RESULT",
		Payload: json.RawMessage(`1`), ReplyTo: "msg-none"}})
	want.Rows(t, f.Rows(`SELECT recipient, message_type FROM agent_message WHERE sender = 'user' ORDER BY seq`),
		"reviewer RESULT", "builder plan_approval_response")
	want.Rows(t, f.Rows(`SELECT recipient, payload ->> 'message_id' FROM agent_message
		WHERE message_type = 'error_report'`), "builder "+gone)
	want.Rows(t, f.Rows(`SELECT status FROM team_requests`), "open")
}

// A question that ends while it is being pushed is not pushed again.
func TestPushIsOverWithItsQuestion(t *testing.T) {
	t.Parallel()
	f, ids := enginetest.NewPhones(t, 2)
	var q questions.Question
	f.Wire.Set(func(_ context.Context, a orchestrator.Attempt) []error {
		if a.Recipient != "device:"+ids[0] {
			return []error{nil}
		}
		f.Wire.Set(nil)
		if _, err := questions.Answer(t.Context(), f.Ledger, q.ID, ids[1], "sealed"); err != nil {
			t.Error(err)
		}
		return enginetest.Failing("500")(t.Context(), a)
	})
	q = f.Question(ids)
	f.Pushes()
	f.Clock.Advance(10 * time.Minute)
	for _, line := range f.Pushes() {
		if strings.Contains(line, "question") {
			t.Errorf("pushed again: %s", line)
		}
	}
	want.Rows(t, f.Rows(`SELECT status, payload ->> 'kind' FROM agent_message WHERE recipient = ? ORDER BY seq`,
		"device:"+ids[0]), "cancelled question", "delivered ended")
}

// An agent with many questions does not hide those of others.
func TestQuestionsTakeTurns(t *testing.T) {
	t.Parallel()
	f, ids := enginetest.NewPhones(t, 1)
	f.Add(agents.Update{Name: "third"})
	for _, asker := range []string{"builder", "reviewer"} {
		for range 100 {
			f.Question(nil, func(d *questions.Draft) { d.Asker = asker })
		}
	}
	last := f.Question(nil, func(d *questions.Draft) { d.Asker = "third" })
	list, _, err := questions.SignalsFor(t.Context(), f.Ledger, device(f, ids[0]))
	if err != nil || len(list) != 200 ||
		!slices.ContainsFunc(list, func(q questions.Question) bool { return q.ID == last.ID }) {
		t.Errorf("%d questions, %v", len(list), err)
	}
}

// A restore does not bring back a device that was revoked or a question that ended in the meantime.
func TestRestoreAndDevices(t *testing.T) {
	t.Parallel()
	enginetest.OfAFile(t, "a server has its own backups")
	f, ids := enginetest.NewPhones(t, 2)
	d, token := f.Pair("lost")
	if _, err := questions.ActivateDevice(t.Context(), f.Ledger, d.ID, d.Recipient); err != nil {
		t.Fatal(err)
	}
	ended, open := f.Question(ids), f.Question(ids)
	f.Pushes()
	backup := filepath.Join(t.TempDir(), "backup.db")
	if _, err := f.BackupTo(t.Context(), backup, false); err != nil {
		t.Fatal(err)
	}
	if _, err := questions.RevokeDevice(t.Context(), f.Ledger, d.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := questions.Answer(t.Context(), f.Ledger, ended.ID, ids[0], "sealed"); err != nil {
		t.Fatal(err)
	}
	done, err := f.Restore(t.Context(), backup, true)
	if err != nil || done.Ended["devices"] != 1 {
		t.Fatalf("%+v, %v", done, err)
	}
	_, err = questions.DeviceOfToken(t.Context(), f.Ledger, token)
	want.Code(t, err, orchestrator.Unauthenticated)
	want.Equal(t, "the lost one", device(f, d.ID).State, questions.DeviceRevoked)
	want.Equal(t, "the other", device(f, ids[0]).State, questions.DeviceActive)
	want.Rows(t, f.Rows(`SELECT status FROM signal_questions ORDER BY question_id = ?`, open.ID), "cancelled",
		"pending")
}

// When the last phone that can read them is revoked, questions are cancelled, and the senders of their messages are
// notified.
func TestQuestionsOfALostPhone(t *testing.T) {
	t.Parallel()
	f, ids := enginetest.NewPhones(t, 2)
	id := f.Send("builder", "user", func(d *orchestrator.Draft) { d.Type = "QUERY" })
	f.Deliver()
	sealed := f.Question(ids, func(d *questions.Draft) { d.MessageID = id })
	clear := f.Question(ids, func(d *questions.Draft) { d.Encrypted, d.Body = false, `{"question":"?"}` })
	f.Pushes()
	for i, want := range []questions.Status{questions.Pending, questions.Cancelled} {
		if _, err := questions.RevokeDevice(t.Context(), f.Ledger, ids[i]); err != nil {
			t.Fatal(err)
		}
		if q, err := questions.Get(t.Context(), f.Ledger, sealed.ID); err != nil || q.Status != want {
			t.Errorf("%+v, %v", q, err)
		}
	}
	if q, err := questions.Get(t.Context(), f.Ledger, clear.ID); err != nil || q.Status != questions.Pending {
		t.Errorf("%+v, %v", q, err)
	}
	want.Rows(t, f.Rows(`SELECT recipient, payload ->> 'message' FROM agent_message
		WHERE message_type = 'error_report'`),
		"builder user did not answer: no remaining device can read the question")
}

// The doctor and `why` handle the user and the devices, although they are not agents.
func TestUserIsExplained(t *testing.T) {
	t.Parallel()
	f, ids := enginetest.NewPhones(t, 1)
	id := f.Send("builder", "user", func(d *orchestrator.Draft) { d.Type = "QUERY" })
	f.Question(ids)
	for _, finding := range overview.Doctor(t.Context(), f.Ledger, overview.DoctorOptions{}) {
		if finding.Code == "unknown recipients" && finding.Level != "ok" {
			t.Errorf("%+v", finding)
		}
	}
	f.Deliver()
	q := f.Question(ids, func(d *questions.Draft) { d.MessageID = id })
	f.Pushes()
	push := f.Rows(`SELECT message_id FROM agent_message WHERE thread_id = ?`, q.ID)[0]
	if _, err := questions.Answer(t.Context(), f.Ledger, q.ID, ids[0], "forged"); err != nil {
		t.Fatal(err)
	}
	if err := questions.RefuseAnswer(t.Context(), f.Ledger, q.ID, "forged", "no phone wrote it"); err != nil {
		t.Fatal(err)
	}
	if _, err := questions.RevokeDevice(t.Context(), f.Ledger, ids[0]); err != nil {
		t.Fatal(err)
	}
	for named, want := range map[string]string{id: q.ID, push: "push service", q.ID: "no phone wrote it"} {
		reasons, err := overview.Why(t.Context(), f.Ledger, named)
		if err != nil || !strings.Contains(fmt.Sprintf("%+v", reasons[0]), want) {
			t.Errorf("%s: %+v, %v; want %s", named, reasons, err, want)
		}
	}
}
