package agents_test

import (
	"fmt"
	"testing"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
)

// Joining again changes only the given fields, a stopped agent works again by joining, and sessions are separate.
// No concurrent change is lost.
func TestPresence(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "a", "b")
	join := func(j agents.Joining) agents.Presence {
		t.Helper()
		j.Session, j.Agent = "s", "a"
		p, err := agents.Join(t.Context(), f.Ledger, j)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	first := join(agents.Joining{DisplayName: new("The A")})
	f.Clock.Advance(time.Minute)
	second := join(agents.Joining{Description: new("does things")})
	want.Equal(t, "name", second.DisplayName, "The A")
	want.Equal(t, "since", second.Since, first.Since)
	f.SayStatus("a", "b", "s", orchestrator.Stopped)
	third := join(agents.Joining{})
	want.Equal(t, "status after joining anew", third.Status, orchestrator.Working)
	want.Equal(t, "joined", third.JoinedAt, first.JoinedAt)
	if list, err := agents.Presences(t.Context(), f.Ledger, "elsewhere"); err != nil || len(list) != 0 {
		t.Errorf("in another session there are %v, %v", list, err)
	}
	if list, err := agents.Presences(t.Context(), f.Ledger, "S"); err != nil || len(list) != 1 {
		t.Errorf("in the session under another spelling there are %v, %v", list, err)
	}
	_, err := agents.Presences(t.Context(), f.Ledger, "no name")
	want.Code(t, err, orchestrator.InvalidParams)
	_, err = agents.Join(t.Context(), f.Ledger, agents.Joining{Session: "s", Agent: "nobody"})
	want.Code(t, err, orchestrator.UnknownSender)

	routers, done := f.OpenAll(2), make(chan error, 40)
	says := func(status orchestrator.PresenceStatus) error {
		_, err := messages.Send(t.Context(), routers[0].Ledger,
			orchestrator.Draft{Sender: "a", Recipient: "b", SessionID: "s", Presence: status})
		return err
	}
	for i := range cap(done) / 2 {
		go func() {
			done <- says([]orchestrator.PresenceStatus{orchestrator.Idle, orchestrator.Working}[i%2])
		}()
		go func() {
			_, err := agents.Join(t.Context(), routers[1].Ledger,
				agents.Joining{Session: "s", Agent: "a", Description: new(fmt.Sprint("number ", i))})
			done <- err
		}()
	}
	for range cap(done) {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	for round := range 100 { // of two consecutive changes the last one stays
		change := make(chan error, 1)
		go func() {
			change <- says([]orchestrator.PresenceStatus{orchestrator.Idle, orchestrator.Stopped}[round%2])
		}()
		text := fmt.Sprint("round ", round)
		if _, err := agents.Join(t.Context(), routers[1].Ledger,
			agents.Joining{Session: "s", Agent: "a", Description: &text}); err != nil {
			t.Fatal(err)
		}
		if err := <-change; err != nil {
			t.Fatal(err)
		}
		if want.Rows(t, f.Rows(`SELECT description FROM presence WHERE session_id = 's' AND agent = 'a'`),
			text); t.Failed() {
			return
		}
	}
}
