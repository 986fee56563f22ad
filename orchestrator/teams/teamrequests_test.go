package teams_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/removal"
	"mailroom/orchestrator/retention"
	"mailroom/orchestrator/teams"
)

// requestStates maps each state of a request to a function that puts a request into the state and returns its ID.
var requestStates = map[string]func(f *enginetest.Fixture, kind orchestrator.RequestKind) (id string){
	"open": func(f *enginetest.Fixture, kind orchestrator.RequestKind) string {
		return f.MustAsk(kind, "lead", "dev").RequestID
	},
	"delivered and read": askAndRead,
	"archived": func(f *enginetest.Fixture, kind orchestrator.RequestKind) string {
		id := askAndRead(f, kind)
		f.Clock.Advance(30 * 24 * time.Hour)
		if _, err := retention.ClearOld(f.T.Context(), f.Ledger, retention.ClearOptions{}); err != nil {
			f.T.Fatal(err)
		}
		want.Equal(f.T, "messages that are not archived", f.Rows(`SELECT count(*) FROM agent_message`)[0], "0")
		return id
	},
	"approved": answeredState(true),
	"rejected": answeredState(false),
	"cancelled": func(f *enginetest.Fixture, kind orchestrator.RequestKind) string {
		sent := f.MustAsk(kind, "lead", "dev")
		if _, err := messages.Cancel(f.T.Context(), f.Ledger, sent.MessageID, "lead"); err != nil {
			f.T.Fatal(err)
		}
		return sent.RequestID
	},
	"expired": func(f *enginetest.Fixture, kind orchestrator.RequestKind) string {
		id := f.MustAsk(kind, "lead", "dev").RequestID
		f.Clock.Advance(8 * 24 * time.Hour)
		f.Deliver()
		return id
	},
	"unknown": func(f *enginetest.Fixture, kind orchestrator.RequestKind) string { return "req-none" },
}

func askAndRead(f *enginetest.Fixture, kind orchestrator.RequestKind) string {
	id := f.MustAsk(kind, "lead", "dev").RequestID
	if ms, _, err := reading.Wait(f.T.Context(), f.Ledger, reading.Options{Recipient: "dev", Limit: 1}); err != nil ||
		len(ms) != 1 {
		f.T.Fatalf("read %v, %v", ms, err)
	}
	return id
}

func answeredState(approve bool) func(f *enginetest.Fixture, kind orchestrator.RequestKind) string {
	return func(f *enginetest.Fixture, kind orchestrator.RequestKind) string {
		id := f.MustAsk(kind, "lead", "dev").RequestID
		if _, err := f.Reply(f.Engine, kind, id, approve, "dev", "lead"); err != nil {
			f.T.Fatal(err)
		}
		return id
	}
}

func other(kind orchestrator.RequestKind) orchestrator.RequestKind {
	if kind == orchestrator.Shutdown {
		return orchestrator.PlanApproval
	}
	return orchestrator.Shutdown
}

// requestSteps lists the steps that can be taken with a request, each with its error code by state; "" is success.
// "*" is any state not listed.
var requestSteps = []struct {
	name  string
	do    func(f *enginetest.Fixture, kind orchestrator.RequestKind, id string) error
	codes map[string]orchestrator.Code
}{
	{"approve", func(f *enginetest.Fixture, kind orchestrator.RequestKind, id string) error {
		_, err := f.Reply(f.Engine, kind, id, true, "dev", "lead")
		return err
	}, answerCodes},
	{"reject", func(f *enginetest.Fixture, kind orchestrator.RequestKind, id string) error {
		_, err := f.Reply(f.Engine, kind, id, false, "dev", "lead")
		return err
	}, answerCodes},
	{"answer by another", func(f *enginetest.Fixture, kind orchestrator.RequestKind, id string) error {
		_, err := f.Reply(f.Engine, kind, id, true, "tester", "lead")
		return err
	}, map[string]orchestrator.Code{"*": orchestrator.NotFound}},
	{"answer by who asked", func(f *enginetest.Fixture, kind orchestrator.RequestKind, id string) error {
		_, err := f.Reply(f.Engine, kind, id, true, "lead", "dev")
		return err
	}, map[string]orchestrator.Code{"*": orchestrator.PermissionDenied, "unknown": orchestrator.NotFound}},
	{"answer to another", func(f *enginetest.Fixture, kind orchestrator.RequestKind, id string) error {
		_, err := f.Reply(f.Engine, kind, id, true, "dev", "tester")
		return err
	}, map[string]orchestrator.Code{
		"*": orchestrator.Conflict, "unknown": orchestrator.NotFound, "open": orchestrator.InvalidParams,
		"delivered and read": orchestrator.InvalidParams, "archived": orchestrator.InvalidParams,
	}},
	{"answer to all", func(f *enginetest.Fixture, kind orchestrator.RequestKind, id string) error {
		_, err := f.Reply(f.Engine, kind, id, true, "dev", teams.Teammates)
		return err
	}, map[string]orchestrator.Code{"*": orchestrator.InvalidParams}},
	{"answer of the other kind", func(f *enginetest.Fixture, kind orchestrator.RequestKind, id string) error {
		_, err := f.Reply(f.Engine, other(kind), id, true, "dev", "lead")
		return err
	}, map[string]orchestrator.Code{"*": orchestrator.InvalidParams, "unknown": orchestrator.NotFound}},
	{"answer in another session", func(f *enginetest.Fixture, kind orchestrator.RequestKind, id string) error {
		_, err := f.Reply(f.Engine, kind, id, true, "dev", "lead",
			func(d *orchestrator.Draft) { d.SessionID = "elsewhere" })
		return err
	}, answerCodes},
	{"ask again", func(f *enginetest.Fixture, kind orchestrator.RequestKind, id string) error {
		_, err := f.Ask(kind, "lead", "dev")
		return err
	}, map[string]orchestrator.Code{
		"*": "", "open": orchestrator.Conflict, "delivered and read": orchestrator.Conflict,
		"archived":          orchestrator.Conflict,
		"shutdown approved": orchestrator.Conflict,
	}},
	{"ask for the other thing", func(f *enginetest.Fixture, kind orchestrator.RequestKind, id string) error {
		_, err := f.Ask(other(kind), "lead", "dev")
		return err
	}, map[string]orchestrator.Code{"*": ""}},
	{"ask by another", func(f *enginetest.Fixture, kind orchestrator.RequestKind, id string) error {
		_, err := f.Ask(kind, "tester", "dev")
		return err
	}, map[string]orchestrator.Code{"*": "", "shutdown approved": orchestrator.Conflict}},
	{"ask somebody else", func(f *enginetest.Fixture, kind orchestrator.RequestKind, id string) error {
		_, err := f.Ask(kind, "lead", "tester")
		return err
	}, map[string]orchestrator.Code{"*": ""}},
	{"ask all", func(f *enginetest.Fixture, kind orchestrator.RequestKind, id string) error {
		_, err := f.Ask(kind, "lead", teams.Teammates)
		return err
	}, map[string]orchestrator.Code{"*": orchestrator.InvalidParams}},
	{"ask oneself", func(f *enginetest.Fixture, kind orchestrator.RequestKind, id string) error {
		_, err := f.Ask(kind, "dev", "dev")
		return err
	}, map[string]orchestrator.Code{"*": orchestrator.InvalidParams}},
	{"ask a group", func(f *enginetest.Fixture, kind orchestrator.RequestKind, id string) error {
		_, err := f.Ask(kind, "lead", enginetest.Session)
		return err
	}, map[string]orchestrator.Code{"*": orchestrator.InvalidParams}},
	{"ask in another session", func(f *enginetest.Fixture, kind orchestrator.RequestKind, id string) error {
		_, err := f.Ask(kind, "lead", "dev", func(d *orchestrator.Draft) { d.SessionID = "elsewhere" })
		return err
	}, map[string]orchestrator.Code{"*": ""}},
}

var answerCodes = map[string]orchestrator.Code{
	"*": orchestrator.Conflict, "unknown": orchestrator.NotFound, "open": "", "delivered and read": "", "archived": "",
}

// Every step in every state has the effect in the table. A refused step changes nothing: no row, no presence.
func TestRequestStateMachine(t *testing.T) {
	t.Parallel()
	for _, kind := range []orchestrator.RequestKind{orchestrator.Shutdown, orchestrator.PlanApproval} {
		for state, enter := range requestStates {
			t.Run(string(kind)+" "+state, func(t *testing.T) {
				t.Parallel()
				var f *enginetest.Fixture
				var id string
				for _, step := range requestSteps {
					if f == nil { // a refused step has left the state unchanged
						f = enginetest.NewTeam(t)
						id = enter(f, kind)
					}
					code, named := step.codes[string(kind)+" "+state]
					if !named {
						code, named = step.codes[state]
					}
					if !named {
						code = step.codes["*"]
					}
					before := f.Everything()
					err := step.do(f, kind, id)
					var e *orchestrator.Error
					errors.As(err, &e)
					switch {
					case code == "" && err != nil:
						t.Errorf("%s: %v; want success", step.name, err)
					case code != "" && orchestrator.CodeOf(err) != code:
						t.Errorf("%s: %v; want %s", step.name, err, code)
					case code != "" && f.Everything() != before:
						t.Errorf("%s was refused and changed something:\n%s\nbefore:\n%s", step.name, f.Everything(),
							before)
					case code == "" && f.Everything() == before:
						t.Errorf("%s succeeded and changed nothing", step.name)
					}
					if err == nil {
						f = nil
					}
				}
			})
		}
	}
}

// Of several concurrent answers exactly one counts, and one message reports it; the others are a conflict.
func TestOfConcurrentAnswersOneWins(t *testing.T) {
	t.Parallel()
	f := enginetest.NewTeam(t)
	routers := f.OpenAll(2)
	for range 20 {
		id := f.MustAsk(orchestrator.PlanApproval, "lead", "dev").RequestID
		errs := make(chan error, 6)
		for i := range cap(errs) {
			go func() {
				_, err := f.Reply(routers[i%2], orchestrator.PlanApproval, id, i%3 == 0, "dev", "lead")
				errs <- err
			}()
		}
		won := 0
		for range cap(errs) {
			if err := <-errs; err == nil {
				won++
			} else if orchestrator.CodeOf(err) != orchestrator.Conflict {
				t.Fatal(err)
			}
		}
		want.Equal(t, "answers that counted", won, 1)
		want.Rows(t, f.Rows(`
			SELECT count(*), count(*) FILTER (WHERE m.message_id = q.answer_id),
				count(*) FILTER (WHERE m.reply_to = q.message_id) FROM team_requests q
			JOIN agent_message m ON m.reply_to = q.message_id WHERE q.request_id = ?1 AND q.status <> 'open'`, id),
			"1 1 1")
	}
}

// Of two concurrent requests of a kind to one teammate exactly one opens.
func TestOfConcurrentRequestsOneOpens(t *testing.T) {
	t.Parallel()
	f := enginetest.NewTeam(t)
	errs := make(chan error, 6)
	for range cap(errs) {
		go func() {
			_, err := f.Ask(orchestrator.Shutdown, "lead", "dev")
			errs <- err
		}()
	}
	opened := 0
	for range cap(errs) {
		if err := <-errs; err == nil {
			opened++
		} else if orchestrator.CodeOf(err) != orchestrator.Conflict {
			t.Fatal(err)
		}
	}
	want.Equal(t, "requests that opened", opened, 1)
	want.Rows(t, f.Rows(`SELECT (SELECT count(*) FROM team_requests), (SELECT count(*) FROM agent_message)`), "1 1")
}

// An agent whose shutdown is approved is stopped: broadcasts omit it, a direct message waits for it, and it is not
// asked to stop again. A refused send does not make it work again, but a successful one does.
func TestApprovedShutdownStops(t *testing.T) {
	t.Parallel()
	f := enginetest.NewTeam(t)
	sent, err := f.Reply(f.Engine, orchestrator.Shutdown, f.MustAsk(orchestrator.Shutdown, "lead", "dev").RequestID,
		true, "dev", "lead")
	if err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "presence in the answer", sent.Presence, orchestrator.Stopped)
	want.Equal(t, "presence", f.Presence("dev"), "stopped")

	all, err := f.Say("lead", teams.Teammates)
	if err != nil || !slices.Equal(all.Recipients, []string{"tester"}) || !slices.Equal(all.Stopped, []string{"dev"}) {
		t.Errorf("the broadcast went to %v, left out %v, %v", all.Recipients, all.Stopped, err)
	}
	direct, err := f.Say("lead", "dev")
	if err != nil || !slices.Equal(direct.Stopped, []string{"dev"}) {
		t.Errorf("the direct message says stopped %v, %v", direct.Stopped, err)
	}
	for name, refused := range map[string]func() error{
		"a message to nobody": func() error { _, err := f.Say("dev", "nobody"); return err },
		"a message to itself": func() error { _, err := f.Say("dev", "dev"); return err },
		"an unknown request": func() error {
			_, err := f.Reply(f.Engine, orchestrator.Shutdown, "req-none", true, "dev", "lead")
			return err
		},
		"a request to nobody": func() error {
			_, err := f.Ask(orchestrator.PlanApproval, "dev",
				"nobody")
			return err
		},
		"a request to a group": func() error {
			_, err := f.Ask(orchestrator.PlanApproval, "dev",
				enginetest.Session)
			return err
		},
	} {
		if refused() == nil {
			t.Errorf("%s is not refused", name)
		}
		want.Equal(t, "presence after "+name, f.Presence("dev"), "stopped")
	}
	if ended, err := teams.EndTurn(t.Context(), f.Ledger, "", idleNotice("dev")); err != nil ||
		ended.Presence.Status != orchestrator.Stopped || ended.Notice.MessageID != "" {
		t.Errorf("the end of a stopped agent's turn: %+v, %v", ended, err)
	}
	if err := teams.TakePart(t.Context(), f.Ledger, agents.Joining{Session: enginetest.Session, Agent: "dev"},
		true); err != nil {
		t.Error(err)
	}
	want.Equal(t, "presence after reading", f.Presence("dev"), "stopped")
	if _, err := f.Say("dev", "lead"); err != nil {
		t.Error(err)
	}
	want.Equal(t, "presence after it spoke", f.Presence("dev"), "working")
	if all, err := f.Say("lead", teams.Teammates); err != nil ||
		!slices.Equal(all.Recipients, []string{"dev", "tester"}) {
		t.Errorf("the broadcast went to %v, %v", all.Recipients, err)
	}
}

// A request to an unknown name is a dead letter, and opens when that is replayed.
func TestRequestToNobodyOpensWithItsReplay(t *testing.T) {
	t.Parallel()
	f := enginetest.NewTeam(t)
	_, err := f.Ask(orchestrator.PlanApproval, "dev", "newcomer")
	want.Code(t, err, orchestrator.UnknownRecipient)
	var refusal *orchestrator.Error
	errors.As(err, &refusal)
	id := f.Rows(`SELECT request_id FROM team_requests`)[0]
	f.Add(agents.Update{Name: "newcomer"})
	_, err = f.Reply(f.Engine, orchestrator.PlanApproval, id, true, "newcomer", "dev")
	want.Code(t, err, orchestrator.Conflict)
	if _, err := messages.Replay(t.Context(), f.Ledger, refusal.MessageID, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Reply(f.Engine, orchestrator.PlanApproval, id, true, "newcomer", "dev"); err != nil {
		t.Error(err)
	}
}

// Requests that reached nobody are not among the open requests, which every ask checks: neither a refused request,
// nor one whose message ended later, nor one whose responder was removed.
func TestVoidRequestsAreNotOpen(t *testing.T) {
	t.Parallel()
	f := enginetest.NewTeam(t)
	statuses := func() []string { return f.Rows(`SELECT status FROM team_requests ORDER BY request_id`) }
	_, err := f.Ask(orchestrator.PlanApproval, "dev", "nobdy")
	want.Code(t, err, orchestrator.UnknownRecipient)
	want.Rows(t, statuses(), "void")
	first := f.MustAsk(orchestrator.PlanApproval, "dev", "lead")
	if _, err := messages.Cancel(t.Context(), f.Ledger, first.MessageID, ""); err != nil {
		t.Fatal(err)
	}
	f.MustAsk(orchestrator.PlanApproval, "dev", "lead")
	want.Rows(t, statuses(), "void", "void", "open")
	_, err = f.Reply(f.Engine, orchestrator.PlanApproval, first.RequestID, true, "lead", "dev")
	want.Code(t, err, orchestrator.Conflict)
	f.Take("lead")
	if _, err := removal.Remove(t.Context(), f.Ledger, removal.Request{Name: "lead", Force: true}); err != nil {
		t.Fatal(err)
	}
	want.Rows(t, statuses(), "void", "void", "void")
}

// A failed request opens again with its message, even if it was stored as void meanwhile.
func TestAVoidRequestOpensWithItsReplay(t *testing.T) {
	t.Parallel()
	f := enginetest.NewTeam(t)
	first := f.MustAsk(orchestrator.PlanApproval, "dev", "lead")
	f.SQL(`UPDATE agent_message SET status = 'failed' WHERE message_id = ?`, first.MessageID)
	f.Deliver()
	f.MustAsk(orchestrator.PlanApproval, "tester", "lead")
	if _, err := messages.Replay(t.Context(), f.Ledger, first.MessageID, ""); err != nil {
		t.Fatal(err)
	}
	want.Rows(t, f.Rows(`SELECT status FROM team_requests`), "open", "open")
	_, err := f.Ask(orchestrator.PlanApproval, "dev", "lead")
	want.Code(t, err, orchestrator.Conflict)
}
