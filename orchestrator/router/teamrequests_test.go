package router_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/retention"
	"mailroom/orchestrator/teams"
)

const session = "crew" // of these tests, and the name of their team

// newTeam is a fixture with a team: the lead, and two others. outsider is known and no member.
func newTeam(t *testing.T) *fixture {
	f := newFixture(t, "lead", "dev", "tester", "outsider")
	if _, err := agents.SetGroup(t.Context(), f.Ledger, session, []string{"lead", "dev", "tester"}); err != nil {
		t.Fatal(err)
	}
	return f
}

// ask asks a teammate for something, and returns the request's id.
func (f *fixture) ask(kind orchestrator.RequestKind, from, to string, change ...func(*orchestrator.Draft)) (teams.Sent, error) {
	d := orchestrator.Draft{Sender: from, Recipient: to, Type: string(kind) + "_request", SessionID: session}
	for _, c := range change {
		c(&d)
	}
	return teams.Ask(f.t.Context(), f.Ledger, teams.Request{Kind: kind, Draft: d, Payload: func(id string) (json.RawMessage, error) {
		return json.RawMessage(fmt.Sprintf(`{"type":%q,"requestId":%q}`, d.Type, id)), nil
	}})
}

func (f *fixture) mustAsk(kind orchestrator.RequestKind, from, to string) teams.Sent {
	f.t.Helper()
	sent, err := f.ask(kind, from, to)
	if err != nil {
		f.t.Fatal(err)
	}
	return sent
}

// reply answers a request.
func (f *fixture) reply(r *delivery.Engine, kind orchestrator.RequestKind, id string, approve bool, from, to string, change ...func(*orchestrator.Draft)) (teams.Sent, error) {
	d := orchestrator.Draft{Sender: from, Recipient: to, Type: string(kind) + "_response", SessionID: session, Payload: json.RawMessage(`{"approve":true}`)}
	for _, c := range change {
		c(&d)
	}
	return teams.Answer(f.t.Context(), r.Ledger, teams.Reply{Kind: kind, RequestID: id, Approve: approve, Draft: d})
}

// say sends a plain message within the team.
func (f *fixture) say(from, to string) (teams.Sent, error) {
	return teams.Send(f.t.Context(), f.Ledger, orchestrator.Draft{Sender: from, Recipient: to, Type: "message", SessionID: session, Payload: json.RawMessage(`{"message":"hello"}`)})
}

// presence is what an agent does in the session, "" for one that takes no part.
func (f *fixture) presence(agent string) string {
	f.t.Helper()
	rows := f.rows(`SELECT status FROM presence WHERE session_id = ?1 AND agent = ?2`, session, agent)
	if len(rows) == 0 {
		return ""
	}
	return rows[0]
}

// everything is all that an act within a team can change.
func (f *fixture) everything() string {
	f.t.Helper()
	var b strings.Builder
	for _, query := range []string{
		`SELECT * FROM team_requests ORDER BY request_id`, `SELECT * FROM presence ORDER BY session_id, agent`,
		`SELECT * FROM agents ORDER BY name`, `SELECT * FROM agent_message ORDER BY seq`, `SELECT * FROM message_trace ORDER BY id`,
	} {
		fmt.Fprintln(&b, strings.Join(f.rows(query), "\n"))
	}
	return b.String()
}

// The ways in which a request can stand, each with how it gets there. The id is that of the request.
var requestStates = map[string]func(f *fixture, kind orchestrator.RequestKind) (id string){
	"open": func(f *fixture, kind orchestrator.RequestKind) string {
		return f.mustAsk(kind, "lead", "dev").RequestID
	},
	"delivered and read": askAndRead,
	"archived": func(f *fixture, kind orchestrator.RequestKind) string {
		id := askAndRead(f, kind)
		f.clock.advance(30 * 24 * time.Hour)
		if _, err := retention.ClearOld(f.t.Context(), f.Ledger, retention.ClearOptions{}); err != nil {
			f.t.Fatal(err)
		}
		want(f.t, "messages that are not archived", f.rows(`SELECT count(*) FROM agent_message`)[0], "0")
		return id
	},
	"approved": answeredState(true),
	"rejected": answeredState(false),
	"cancelled": func(f *fixture, kind orchestrator.RequestKind) string {
		sent := f.mustAsk(kind, "lead", "dev")
		if _, err := messages.Cancel(f.t.Context(), f.Ledger, sent.MessageID, "lead"); err != nil {
			f.t.Fatal(err)
		}
		return sent.RequestID
	},
	"expired": func(f *fixture, kind orchestrator.RequestKind) string {
		id := f.mustAsk(kind, "lead", "dev").RequestID
		f.clock.advance(8 * 24 * time.Hour)
		f.deliver()
		return id
	},
	"unknown": func(f *fixture, kind orchestrator.RequestKind) string { return "req-none" },
}

func askAndRead(f *fixture, kind orchestrator.RequestKind) string {
	id := f.mustAsk(kind, "lead", "dev").RequestID
	if ms, _, err := reading.Wait(f.t.Context(), f.Ledger, reading.Options{Recipient: "dev", Limit: 1}); err != nil || len(ms) != 1 {
		f.t.Fatalf("read %v, %v", ms, err)
	}
	return id
}

func answeredState(approve bool) func(f *fixture, kind orchestrator.RequestKind) string {
	return func(f *fixture, kind orchestrator.RequestKind) string {
		id := f.mustAsk(kind, "lead", "dev").RequestID
		if _, err := f.reply(f.Engine, kind, id, approve, "dev", "lead"); err != nil {
			f.t.Fatal(err)
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

// The steps that can be taken at a request, each with its code by state; "" is success. "*" is any state that is not named.
var requestSteps = []struct {
	name  string
	do    func(f *fixture, kind orchestrator.RequestKind, id string) error
	codes map[string]orchestrator.Code
}{
	{"approve", func(f *fixture, kind orchestrator.RequestKind, id string) error {
		_, err := f.reply(f.Engine, kind, id, true, "dev", "lead")
		return err
	}, answerCodes},
	{"reject", func(f *fixture, kind orchestrator.RequestKind, id string) error {
		_, err := f.reply(f.Engine, kind, id, false, "dev", "lead")
		return err
	}, answerCodes},
	{"answer by another", func(f *fixture, kind orchestrator.RequestKind, id string) error {
		_, err := f.reply(f.Engine, kind, id, true, "tester", "lead")
		return err
	}, map[string]orchestrator.Code{"*": orchestrator.NotFound}},
	{"answer by who asked", func(f *fixture, kind orchestrator.RequestKind, id string) error {
		_, err := f.reply(f.Engine, kind, id, true, "lead", "dev")
		return err
	}, map[string]orchestrator.Code{"*": orchestrator.PermissionDenied, "unknown": orchestrator.NotFound}},
	{"answer to another", func(f *fixture, kind orchestrator.RequestKind, id string) error {
		_, err := f.reply(f.Engine, kind, id, true, "dev", "tester")
		return err
	}, map[string]orchestrator.Code{
		"*": orchestrator.Conflict, "unknown": orchestrator.NotFound, "open": orchestrator.InvalidParams,
		"delivered and read": orchestrator.InvalidParams, "archived": orchestrator.InvalidParams,
	}},
	{"answer to all", func(f *fixture, kind orchestrator.RequestKind, id string) error {
		_, err := f.reply(f.Engine, kind, id, true, "dev", teams.Teammates)
		return err
	}, map[string]orchestrator.Code{"*": orchestrator.InvalidParams}},
	{"answer of the other kind", func(f *fixture, kind orchestrator.RequestKind, id string) error {
		_, err := f.reply(f.Engine, other(kind), id, true, "dev", "lead")
		return err
	}, map[string]orchestrator.Code{"*": orchestrator.InvalidParams, "unknown": orchestrator.NotFound}},
	{"answer in another session", func(f *fixture, kind orchestrator.RequestKind, id string) error {
		_, err := f.reply(f.Engine, kind, id, true, "dev", "lead", func(d *orchestrator.Draft) { d.SessionID = "elsewhere" })
		return err
	}, answerCodes},
	{"ask again", func(f *fixture, kind orchestrator.RequestKind, id string) error {
		_, err := f.ask(kind, "lead", "dev")
		return err
	}, map[string]orchestrator.Code{
		"*": "", "open": orchestrator.Conflict, "delivered and read": orchestrator.Conflict, "archived": orchestrator.Conflict,
		"shutdown approved": orchestrator.Conflict,
	}},
	{"ask for the other thing", func(f *fixture, kind orchestrator.RequestKind, id string) error {
		_, err := f.ask(other(kind), "lead", "dev")
		return err
	}, map[string]orchestrator.Code{"*": ""}},
	{"ask by another", func(f *fixture, kind orchestrator.RequestKind, id string) error {
		_, err := f.ask(kind, "tester", "dev")
		return err
	}, map[string]orchestrator.Code{"*": "", "shutdown approved": orchestrator.Conflict}},
	{"ask somebody else", func(f *fixture, kind orchestrator.RequestKind, id string) error {
		_, err := f.ask(kind, "lead", "tester")
		return err
	}, map[string]orchestrator.Code{"*": ""}},
	{"ask all", func(f *fixture, kind orchestrator.RequestKind, id string) error {
		_, err := f.ask(kind, "lead", teams.Teammates)
		return err
	}, map[string]orchestrator.Code{"*": orchestrator.InvalidParams}},
	{"ask oneself", func(f *fixture, kind orchestrator.RequestKind, id string) error {
		_, err := f.ask(kind, "dev", "dev")
		return err
	}, map[string]orchestrator.Code{"*": orchestrator.InvalidParams}},
	{"ask a group", func(f *fixture, kind orchestrator.RequestKind, id string) error {
		_, err := f.ask(kind, "lead", session)
		return err
	}, map[string]orchestrator.Code{"*": orchestrator.InvalidParams}},
	{"ask in another session", func(f *fixture, kind orchestrator.RequestKind, id string) error {
		_, err := f.ask(kind, "lead", "dev", func(d *orchestrator.Draft) { d.SessionID = "elsewhere" })
		return err
	}, map[string]orchestrator.Code{"*": ""}},
}

var answerCodes = map[string]orchestrator.Code{
	"*": orchestrator.Conflict, "unknown": orchestrator.NotFound, "open": "", "delivered and read": "", "archived": "",
}

// Every step in every state does what the table says. A step that is refused changes nothing at all: no row, no presence.
func TestRequestStateMachine(t *testing.T) {
	t.Parallel()
	for _, kind := range []orchestrator.RequestKind{orchestrator.Shutdown, orchestrator.PlanApproval} {
		for state, enter := range requestStates {
			t.Run(string(kind)+" "+state, func(t *testing.T) {
				t.Parallel()
				var f *fixture
				var id string
				for _, step := range requestSteps {
					if f == nil { // a step that was refused has left the state as it was
						f = newTeam(t)
						id = enter(f, kind)
					}
					code, named := step.codes[string(kind)+" "+state]
					if !named {
						code, named = step.codes[state]
					}
					if !named {
						code = step.codes["*"]
					}
					before := f.everything()
					err := step.do(f, kind, id)
					var e *orchestrator.Error
					errors.As(err, &e)
					switch {
					case code == "" && err != nil:
						t.Errorf("%s: %v; want success", step.name, err)
					case code != "" && orchestrator.CodeOf(err) != code:
						t.Errorf("%s: %v; want %s", step.name, err, code)
					case code != "" && f.everything() != before:
						t.Errorf("%s was refused and changed something:\n%s\nbefore:\n%s", step.name, f.everything(), before)
					case code == "" && f.everything() == before:
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

// Of several answers at the same time exactly one counts, and one message says so; the others are a conflict.
func TestOfConcurrentAnswersOneWins(t *testing.T) {
	t.Parallel()
	f := newTeam(t)
	routers := f.openAll(2)
	for range 20 {
		id := f.mustAsk(orchestrator.PlanApproval, "lead", "dev").RequestID
		errs := make(chan error, 6)
		for i := range cap(errs) {
			go func() {
				_, err := f.reply(routers[i%2], orchestrator.PlanApproval, id, i%3 == 0, "dev", "lead")
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
		want(t, "answers that counted", won, 1)
		wantRows(t, f.rows(`
			SELECT count(*), min(m.message_id = q.answer_id), min(m.reply_to = q.message_id) FROM team_requests q
			JOIN agent_message m ON m.reply_to = q.message_id WHERE q.request_id = ?1 AND q.status <> 'open'`, id), "1 1 1")
	}
}

// Of two requests of a kind to one teammate at the same time exactly one opens.
func TestOfConcurrentRequestsOneOpens(t *testing.T) {
	t.Parallel()
	f := newTeam(t)
	errs := make(chan error, 6)
	for range cap(errs) {
		go func() {
			_, err := f.ask(orchestrator.Shutdown, "lead", "dev")
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
	want(t, "requests that opened", opened, 1)
	wantRows(t, f.rows(`SELECT (SELECT count(*) FROM team_requests), (SELECT count(*) FROM agent_message)`), "1 1")
}

// Who approves its shutdown is stopped: broadcasts leave it out, a direct message waits for it, it is not asked to stop
// again, what it is refused does not bring it back, and what it says does.
func TestApprovedShutdownStops(t *testing.T) {
	t.Parallel()
	f := newTeam(t)
	sent, err := f.reply(f.Engine, orchestrator.Shutdown, f.mustAsk(orchestrator.Shutdown, "lead", "dev").RequestID, true, "dev", "lead")
	if err != nil {
		t.Fatal(err)
	}
	want(t, "presence in the answer", sent.Presence, orchestrator.Stopped)
	want(t, "presence", f.presence("dev"), "stopped")

	all, err := f.say("lead", teams.Teammates)
	if err != nil || !slices.Equal(all.Recipients, []string{"tester"}) || !slices.Equal(all.Stopped, []string{"dev"}) {
		t.Errorf("the broadcast went to %v, left out %v, %v", all.Recipients, all.Stopped, err)
	}
	direct, err := f.say("lead", "dev")
	if err != nil || !slices.Equal(direct.Stopped, []string{"dev"}) {
		t.Errorf("the direct message says stopped %v, %v", direct.Stopped, err)
	}
	for name, refused := range map[string]func() error{
		"a message to nobody": func() error { _, err := f.say("dev", "nobody"); return err },
		"a message to itself": func() error { _, err := f.say("dev", "dev"); return err },
		"an unknown request": func() error {
			_, err := f.reply(f.Engine, orchestrator.Shutdown, "req-none", true, "dev", "lead")
			return err
		},
		"a request to nobody":  func() error { _, err := f.ask(orchestrator.PlanApproval, "dev", "nobody"); return err },
		"a request to a group": func() error { _, err := f.ask(orchestrator.PlanApproval, "dev", session); return err },
	} {
		if refused() == nil {
			t.Errorf("%s is not refused", name)
		}
		want(t, "presence after "+name, f.presence("dev"), "stopped")
	}
	if ended, err := teams.EndTurn(t.Context(), f.Ledger, "", idleNotice("dev")); err != nil || ended.Presence.Status != orchestrator.Stopped || ended.Notice.MessageID != "" {
		t.Errorf("the end of a stopped agent's turn: %+v, %v", ended, err)
	}
	if err := teams.TakePart(t.Context(), f.Ledger, agents.Joining{Session: session, Agent: "dev"}, true); err != nil {
		t.Error(err)
	}
	want(t, "presence after reading", f.presence("dev"), "stopped")
	if _, err := f.say("dev", "lead"); err != nil {
		t.Error(err)
	}
	want(t, "presence after it spoke", f.presence("dev"), "working")
	if all, err := f.say("lead", teams.Teammates); err != nil || !slices.Equal(all.Recipients, []string{"dev", "tester"}) {
		t.Errorf("the broadcast went to %v, %v", all.Recipients, err)
	}
}

// A request to a name that nobody knows is a dead letter; it opens when that is replayed.
func TestRequestToNobodyOpensWithItsReplay(t *testing.T) {
	t.Parallel()
	f := newTeam(t)
	_, err := f.ask(orchestrator.PlanApproval, "dev", "newcomer")
	wantCode(t, err, orchestrator.UnknownRecipient)
	var refusal *orchestrator.Error
	errors.As(err, &refusal)
	id := f.rows(`SELECT request_id FROM team_requests`)[0]
	f.add(agents.Update{Name: "newcomer"})
	_, err = f.reply(f.Engine, orchestrator.PlanApproval, id, true, "newcomer", "dev")
	wantCode(t, err, orchestrator.Conflict)
	if _, err := messages.Replay(t.Context(), f.Ledger, refusal.MessageID, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := f.reply(f.Engine, orchestrator.PlanApproval, id, true, "newcomer", "dev"); err != nil {
		t.Error(err)
	}
}

// What reached nobody does not stand among the open requests, which every ask looks at: neither a refused one, nor one
// whose message ended later, nor one whose responder was removed.
func TestVoidRequestsAreNotOpen(t *testing.T) {
	t.Parallel()
	f := newTeam(t)
	statuses := func() []string { return f.rows(`SELECT status FROM team_requests ORDER BY request_id`) }
	_, err := f.ask(orchestrator.PlanApproval, "dev", "nobdy")
	wantCode(t, err, orchestrator.UnknownRecipient)
	wantRows(t, statuses(), "void")
	first := f.mustAsk(orchestrator.PlanApproval, "dev", "lead")
	if _, err := messages.Cancel(t.Context(), f.Ledger, first.MessageID, ""); err != nil {
		t.Fatal(err)
	}
	f.mustAsk(orchestrator.PlanApproval, "dev", "lead")
	wantRows(t, statuses(), "void", "void", "open")
	_, err = f.reply(f.Engine, orchestrator.PlanApproval, first.RequestID, true, "lead", "dev")
	wantCode(t, err, orchestrator.Conflict)
	f.take("lead")
	if _, err := delivery.RemoveAgent(t.Context(), f.Ledger, delivery.Removal{Name: "lead", Force: true}); err != nil {
		t.Fatal(err)
	}
	wantRows(t, statuses(), "void", "void", "void")
}

// A request that failed opens anew with its message, also when it was noted as void meanwhile.
func TestAVoidRequestOpensWithItsReplay(t *testing.T) {
	t.Parallel()
	f := newTeam(t)
	first := f.mustAsk(orchestrator.PlanApproval, "dev", "lead")
	f.sql(`UPDATE agent_message SET status = 'failed' WHERE message_id = ?`, first.MessageID)
	f.deliver()
	f.mustAsk(orchestrator.PlanApproval, "tester", "lead")
	if _, err := messages.Replay(t.Context(), f.Ledger, first.MessageID, ""); err != nil {
		t.Fatal(err)
	}
	wantRows(t, f.rows(`SELECT status FROM team_requests`), "open", "open")
	_, err := f.ask(orchestrator.PlanApproval, "dev", "lead")
	wantCode(t, err, orchestrator.Conflict)
}
