package teams_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/teams"
)

func idleNotice(agent string) orchestrator.Draft {
	return orchestrator.Draft{Sender: agent, Type: "idle_notification", SessionID: enginetest.Session,
		Payload: json.RawMessage(`{"type":"idle_notification"}`)}
}

// The end of a turn is reported once, to the lead or to the agent that the sender names. The next turn begins when
// the agent sends something or gets work.
func TestOneIdleNotificationATurn(t *testing.T) {
	t.Parallel()
	f := enginetest.NewTeam(t)
	told := func() string {
		return f.Rows(`SELECT count(*) FROM agent_message WHERE message_type = 'idle_notification'`)[0]
	}
	end := func(agent, lead string) teams.TurnEnded {
		t.Helper()
		ended, err := teams.EndTurn(t.Context(), f.Ledger, lead, idleNotice(agent))
		if err != nil {
			t.Fatal(err)
		}
		return ended
	}
	want.Equal(t, "lead", end("dev", "").Lead, "lead")
	end("dev", "")
	want.Equal(t, "told after two ends of one turn", told(), "1")
	if _, err := f.Say("dev", "tester"); err != nil {
		t.Fatal(err)
	}
	end("dev", "tester")
	want.Rows(t, f.Rows(`SELECT sender, recipient FROM agent_message WHERE message_type = 'idle_notification'
		ORDER BY seq`), "dev lead", "dev tester")
	if err := teams.TakePart(t.Context(), f.Ledger, agents.Joining{Session: enginetest.Session, Agent: "dev"},
		true); err != nil {
		t.Fatal(err)
	}
	end("dev", "")
	want.Equal(t, "told after three turns", told(), "3")
	want.Equal(t, "the lead's own turn tells", end("lead", "").Lead, "")
	want.Equal(t, "told after the lead's turn", told(), "3")
	want.Equal(t, "the lead's presence", f.Presence("lead"), "idle")
	if _, err := f.Say("dev", "lead"); err != nil {
		t.Fatal(err)
	}
	_, err := teams.EndTurn(t.Context(), f.Ledger, "nobody", idleNotice("dev"))
	want.Code(t, err, orchestrator.UnknownRecipient)
	want.Equal(t, "presence after a refused end", f.Presence("dev"), "working")

	done := make(chan error, 8)
	for range cap(done) {
		go func() {
			_, err := teams.EndTurn(context.WithoutCancel(t.Context()), f.Ledger, "", idleNotice("dev"))
			done <- err
		}()
	}
	for range cap(done) {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	want.Equal(t, "told after eight ends at once", told(), "4")
}

// Sessions are separate teams: an agent that has stopped in one works in another.
func TestTeamsOfSessionsAreApart(t *testing.T) {
	t.Parallel()
	f := enginetest.NewTeam(t)
	if _, err := f.Reply(f.Engine, orchestrator.Shutdown, f.MustAsk(orchestrator.Shutdown, "lead", "dev").RequestID,
		true, "dev", "lead"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ session, members, recipients string }{
		{enginetest.Session, "lead,dev,tester", "tester"},
		{"elsewhere", "dev,lead,outsider,tester", "dev,outsider,tester"}, // no group of that name: all known agents
	} {
		sent, err := teams.Send(t.Context(), f.Ledger,
			orchestrator.Draft{Sender: "lead", Recipient: teams.Teammates, Type: "message", SessionID: c.session})
		if err != nil {
			t.Fatal(err)
		}
		recipients := slices.Clone(sent.Recipients)
		want.Equal(t, "recipients in "+c.session, strings.Join(sorted(recipients), ","),
			strings.Join(sorted(strings.Split(c.recipients, ",")), ","))
		members, err := teams.Get(t.Context(), f.Ledger, c.session)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for i, m := range members {
			if m.BuiltIn {
				continue
			}
			names = append(names, m.Name)
			want.Equal(t, m.Name+" is the lead", m.Lead, i == 0)
		}
		want.Equal(t, "members of "+c.session, strings.Join(sorted(names), ","),
			strings.Join(sorted(strings.Split(c.members, ",")), ","))
	}
}

func sorted(names []string) []string {
	slices.Sort(names)
	return names
}

// A rejected shutdown stops nobody, and another request can follow. When all other members have stopped, a
// broadcast is refused.
func TestRejectedShutdownAndEmptyBroadcast(t *testing.T) {
	t.Parallel()
	f := enginetest.NewTeam(t)
	for _, approve := range []bool{false, true} {
		for _, name := range []string{"dev", "tester"} {
			if _, err := f.Reply(f.Engine, orchestrator.Shutdown,
				f.MustAsk(orchestrator.Shutdown, "lead", name).RequestID, approve, name, "lead"); err != nil {
				t.Fatal(err)
			}
			want.Equal(t, name+"'s presence", f.Presence(name),
				map[bool]string{false: "working", true: "stopped"}[approve])
		}
	}
	_, err := f.Say("lead", teams.Teammates)
	want.Code(t, err, orchestrator.InvalidParams)
}

// The approval of a plan ends the requester's plan mode; a rejection does not.
func TestApprovedPlanEndsPlanMode(t *testing.T) {
	t.Parallel()
	f := enginetest.NewTeam(t)
	f.Add(agents.Update{Name: "dev", PlanModeRequired: new(true)})
	f.Add(agents.Update{Name: "lead", PlanModeRequired: new(true)})
	required := `SELECT group_concat(name)
		FROM (SELECT name FROM agents WHERE plan_mode_required = 1 ORDER BY name) AS a`
	for _, c := range []struct {
		approve bool
		left    string
	}{{false, "dev,lead"}, {true, "lead"}} {
		id := f.MustAsk(orchestrator.PlanApproval, "dev", "lead").RequestID
		if _, err := f.Reply(f.Engine, orchestrator.PlanApproval, id, c.approve, "lead", "dev"); err != nil {
			t.Fatal(err)
		}
		want.Rows(t, f.Rows(required), c.left)
	}
}

// The lead is the member with the name team-lead, or else with that role, or else the first in the team or among
// all agents. A broadcast reaches exactly the team.
func TestLeadOfATeam(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t)
	for _, name := range []string{"first", "second", "third", "outsider"} {
		f.Clock.Advance(time.Second)
		f.Add(agents.Update{Name: name})
	}
	lead := func(session, name string) {
		t.Helper()
		members, err := teams.Get(t.Context(), f.Ledger, session)
		if err != nil {
			t.Fatal(err)
		}
		var leads []string
		for i, m := range members {
			if m.Lead != (i == 0) {
				t.Errorf("member %d: %+v", i, m)
			}
			if m.Lead {
				leads = append(leads, m.Name)
			}
		}
		want.Equal(t, "lead of "+session, strings.Join(leads, " "), name)
	}
	set := func(members ...string) {
		t.Helper()
		if _, err := agents.SetGroup(t.Context(), f.Ledger, enginetest.Session, members); err != nil {
			t.Fatal(err)
		}
	}
	lead("elsewhere", "first")
	set("third", "second", "first")
	lead(enginetest.Session, "third")
	f.Add(agents.Update{Name: "second", Role: new("Team-lead")})
	lead(enginetest.Session, "second")
	lead("elsewhere", "second")
	f.Add(agents.Update{Name: "team-lead"})
	lead(enginetest.Session, "second") // a member of another team
	lead("elsewhere", "team-lead")
	set("third", "second", "first", "team-lead")
	lead(enginetest.Session, "team-lead")

	sent, err := f.Say("first", teams.Teammates)
	if err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "recipients", strings.Join(sent.Recipients, " "), "team-lead third second")
	if sent, err = f.Say("outsider", teams.Teammates); err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "recipients of one from outside", strings.Join(sent.Recipients, " "), "team-lead third second first")
	set()
	_, err = f.Say("first", teams.Teammates)
	want.Code(t, err, orchestrator.InvalidParams)
}
