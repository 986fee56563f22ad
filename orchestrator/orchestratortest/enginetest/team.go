package enginetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/teams"
)

// Session is the session of the team, and its name.
const Session = "crew"

// NewTeam creates a database with a team: lead, dev and tester. The agent outsider is not a member.
func NewTeam(t *testing.T) *Fixture {
	f := New(t, "lead", "dev", "tester", "outsider")
	if _, err := agents.SetGroup(t.Context(), f.Ledger, Session, []string{"lead", "dev", "tester"}); err != nil {
		t.Fatal(err)
	}
	return f
}

// Ask sends a request to a teammate, and returns the request.
func (f *Fixture) Ask(kind orchestrator.RequestKind, from, to string, change ...func(*orchestrator.Draft)) (teams.Sent,
	error) {
	d := orchestrator.Draft{Sender: from, Recipient: to, Type: string(kind) + "_request", SessionID: Session}
	for _, c := range change {
		c(&d)
	}
	return teams.Ask(f.T.Context(), f.Ledger,
		teams.Request{Kind: kind, Draft: d, Payload: func(id string) (json.RawMessage, error) {
			return json.RawMessage(fmt.Sprintf(`{"type":%q,"requestId":%q}`, d.Type, id)), nil
		}})
}

// MustAsk sends a request to a teammate, and ends the test on an error.
func (f *Fixture) MustAsk(kind orchestrator.RequestKind, from, to string) teams.Sent {
	f.T.Helper()
	sent, err := f.Ask(kind, from, to)
	if err != nil {
		f.T.Fatal(err)
	}
	return sent
}

// Reply answers a request through a given engine.
func (f *Fixture) Reply(e *delivery.Engine, kind orchestrator.RequestKind, id string, approve bool, from, to string,
	change ...func(*orchestrator.Draft)) (teams.Sent, error) {
	d := orchestrator.Draft{Sender: from, Recipient: to, Type: string(kind) + "_response", SessionID: Session,
		Payload: json.RawMessage(`{"approve":true}`)}
	for _, c := range change {
		c(&d)
	}
	return teams.Answer(f.T.Context(), e.Ledger, teams.Reply{Kind: kind, RequestID: id, Approve: approve, Draft: d})
}

// Say sends a plain message within the team.
func (f *Fixture) Say(from, to string) (teams.Sent, error) {
	return teams.Send(f.T.Context(), f.Ledger,
		orchestrator.Draft{Sender: from, Recipient: to, Type: "message", SessionID: Session,
			Payload: json.RawMessage(`{"message":"hello"}`)})
}

// Presence returns an agent's status in the session, or "" if the agent does not take part.
func (f *Fixture) Presence(agent string) string {
	f.T.Helper()
	rows := f.Rows(`SELECT status FROM presence WHERE session_id = ?1 AND agent = ?2`, Session, agent)
	if len(rows) == 0 {
		return ""
	}
	return rows[0]
}

// Everything returns all rows that an action within a team can change.
func (f *Fixture) Everything() string {
	f.T.Helper()
	var b strings.Builder
	for _, query := range []string{
		`SELECT * FROM team_requests ORDER BY request_id`, `SELECT * FROM presence ORDER BY session_id, agent`,
		`SELECT * FROM agents ORDER BY name`, `SELECT * FROM agent_message ORDER BY seq`,
		`SELECT * FROM message_trace ORDER BY id`,
	} {
		fmt.Fprintln(&b, strings.Join(f.Rows(query), "\n"))
	}
	return b.String()
}
