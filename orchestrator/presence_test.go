package orchestrator_test

import (
	"fmt"
	"testing"
	"time"

	"mailroom/orchestrator"
)

// Presence: joining anew changes only what is given, a stopped agent works again by joining, and a session is apart from
// others. Of several changes at once none is lost.
func TestPresence(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "a", "b")
	join := func(j orchestrator.Joining) orchestrator.Presence {
		t.Helper()
		j.Session, j.Agent = "s", "a"
		p, err := f.Join(t.Context(), j)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	first := join(orchestrator.Joining{DisplayName: new("The A")})
	f.clock.advance(time.Minute)
	second := join(orchestrator.Joining{Description: new("does things")})
	want(t, "name", second.DisplayName, "The A")
	want(t, "since", second.Since, first.Since)
	f.says("a", "b", "s", orchestrator.Stopped)
	third := join(orchestrator.Joining{})
	want(t, "status after joining anew", third.Status, orchestrator.Working)
	want(t, "joined", third.JoinedAt, first.JoinedAt)
	if list, err := f.Presences(t.Context(), "elsewhere"); err != nil || len(list) != 0 {
		t.Errorf("in another session there are %v, %v", list, err)
	}
	if list, err := f.Presences(t.Context(), "S"); err != nil || len(list) != 1 {
		t.Errorf("in the session under another spelling there are %v, %v", list, err)
	}
	_, err := f.Presences(t.Context(), "no name")
	wantCode(t, err, orchestrator.InvalidParams)
	_, err = f.Join(t.Context(), orchestrator.Joining{Session: "s", Agent: "nobody"})
	wantCode(t, err, orchestrator.UnknownSender)

	routers, done := f.openAll(2), make(chan error, 40)
	says := func(status orchestrator.PresenceStatus) error {
		_, err := routers[0].Send(t.Context(), orchestrator.Draft{Sender: "a", Recipient: "b", SessionID: "s", Presence: status})
		return err
	}
	for i := range cap(done) / 2 {
		go func() {
			done <- says([]orchestrator.PresenceStatus{orchestrator.Idle, orchestrator.Working}[i%2])
		}()
		go func() {
			_, err := routers[1].Join(t.Context(), orchestrator.Joining{Session: "s", Agent: "a", Description: new(fmt.Sprint("number ", i))})
			done <- err
		}()
	}
	for range cap(done) {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	for round := range 100 { // the last of two that were made one after the other stays
		change := make(chan error, 1)
		go func() {
			change <- says([]orchestrator.PresenceStatus{orchestrator.Idle, orchestrator.Stopped}[round%2])
		}()
		text := fmt.Sprint("round ", round)
		if _, err := routers[1].Join(t.Context(), orchestrator.Joining{Session: "s", Agent: "a", Description: &text}); err != nil {
			t.Fatal(err)
		}
		if err := <-change; err != nil {
			t.Fatal(err)
		}
		if wantRows(t, f.rows(`SELECT description FROM presence WHERE session_id = 's' AND agent = 'a'`), text); t.Failed() {
			return
		}
	}
}
