package router_test

import (
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/bridge/letters"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/teams"
)

const limit = 10 * time.Minute

// addLimited adds an agent with a limit to its silence, and the manager who hears of it.
func (f *fixture) addLimited(name string) {
	f.t.Helper()
	f.add(agents.Update{Name: "pm"})
	f.add(agents.Update{Name: name, SilentAfter: new(limit)})
}

// timeouts lists the notes about silent agents that were sent to anybody.
func (f *fixture) timeouts() []string {
	f.t.Helper()
	f.deliver()
	return f.rows(`SELECT recipient, sender, priority, json_extract(payload, '$.agent'), json_extract(payload, '$.silent_since')
		FROM agent_message WHERE message_type = 'agent_timeout' ORDER BY seq`)
}

func (f *fixture) standing(agent string) overview.Standing {
	f.t.Helper()
	s, err := overview.StandingOf(f.t.Context(), f.Ledger, agent)
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

// Whatever an agent does counts as a sign of it, and nothing else does. Its silence is counted from its last act.
func TestWhatIsHeardOfAnAgent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		act   func(f *fixture)
		heard bool
	}{
		"nothing": {func(f *fixture) {}, false},
		"a send":  {func(f *fixture) { f.send("a", "pm") }, true},
		"a broadcast": {func(f *fixture) {
			if _, err := f.say("a", teams.Teammates); err != nil {
				f.t.Fatal(err)
			}
		}, true},
		"a read": {func(f *fixture) { f.send("pm", "a"); f.take("a") }, true},
		"a read that finds nothing": {func(f *fixture) {
			if ms, _, err := reading.Wait(f.t.Context(), f.Ledger, reading.Options{Recipient: "a", Limit: 1}); err != nil || len(ms) > 0 {
				f.t.Fatalf("%v, %v", ms, err)
			}
		}, true},
		"a look that marks nothing": {func(f *fixture) {
			f.send("pm", "a")
			ms, _, err := reading.Wait(f.t.Context(), f.Ledger, reading.Options{Recipient: "a", Limit: 1, Peek: true})
			if err != nil || len(ms) != 1 {
				f.t.Fatalf("%v, %v", ms, err)
			}
		}, false},
		"a look that marks nothing and finds nothing": {func(f *fixture) {
			ms, _, err := reading.Wait(f.t.Context(), f.Ledger, reading.Options{Recipient: "a", Limit: 1, Peek: true})
			if err != nil || len(ms) > 0 {
				f.t.Fatalf("%v, %v", ms, err)
			}
		}, false},
		"a look into a folder that finds nothing": {func(f *fixture) {
			in, err := letters.Wait(f.t.Context(), f.Engine, letters.Request{Agent: "a", Target: "wire:a", Limit: 1, Mark: true}, 0)
			if err != nil || len(in.Messages) > 0 {
				f.t.Fatalf("%v, %v", in, err)
			}
		}, true},
		"an acknowledgement": {func(f *fixture) {
			id := f.send("pm", "a")
			f.deliver()
			if _, err := messages.Acknowledge(f.t.Context(), f.Ledger, id, "a"); err != nil {
				f.t.Fatal(err)
			}
		}, true},
		"a presence": {func(f *fixture) {
			if _, err := agents.Join(f.t.Context(), f.Ledger, agents.Joining{Session: "s", Agent: "a", Description: new("tests")}); err != nil {
				f.t.Fatal(err)
			}
		}, true},
		"a row in the table": {func(f *fixture) {
			f.sql(`INSERT INTO agent_message (message_id, sender, recipient, payload) VALUES ('m1', 'a', 'pm', '{}')`)
		}, true},
		"a refused send": {func(f *fixture) {
			if _, err := messages.Send(f.t.Context(), f.Ledger, orchestrator.Draft{Sender: "a", Recipient: "nobody"}); err == nil {
				f.t.Fatal("sent to nobody")
			}
		}, false},
		"a message to it":      {func(f *fixture) { f.send("pm", "a") }, false},
		"a change of its role": {func(f *fixture) { f.add(agents.Update{Name: "a", Role: new("tests")}) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.addLimited("a")
			f.says("a", "pm", "s", orchestrator.Working)
			since := f.standing("a").StatusSince
			f.clock.advance(limit / 2)
			c.act(f)
			f.deliver()
			acted := f.clock.now().Format("2006-01-02T15:04:05.000Z")
			f.clock.advance(limit / 2)
			if !c.heard {
				want(t, "status", f.standing("a").Status, overview.Silent)
				wantRows(t, f.timeouts(), "pm system 2 a "+since)
				return
			}
			want(t, "status halfway", f.standing("a").Status, orchestrator.Working)
			wantRows(t, f.timeouts())
			f.clock.advance(limit/2 - time.Millisecond)
			wantRows(t, f.timeouts())
			f.clock.advance(time.Millisecond)
			wantRows(t, f.timeouts(), "pm system 2 a "+acted)
		})
	}
}

// Who waits is heard of for as long as it does.
func TestAWaitIsASignOfLife(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]func(t *testing.T, r *delivery.Engine, timeout time.Duration) error{
		"for its inbox": func(t *testing.T, r *delivery.Engine, timeout time.Duration) error {
			_, _, err := reading.Wait(t.Context(), r.Ledger, reading.Options{Recipient: "a", Limit: 1, Timeout: timeout})
			return err
		},
		"for its folder": func(t *testing.T, r *delivery.Engine, timeout time.Duration) error {
			_, err := letters.Wait(t.Context(), r, letters.Request{Agent: "a", Target: "wire:a", Limit: 1, Mark: true}, timeout)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			waitIsHeard(t, wait)
		})
	}
}

func waitIsHeard(t *testing.T, wait func(t *testing.T, r *delivery.Engine, timeout time.Duration) error) {
	synctest.Test(t, func(t *testing.T) {
		f := bubbleFixture(t)
		defer f.Close()
		f.addLimited("a")
		waited := make(chan error, 1)
		go func() { waited <- wait(t, f.Engine, 10*limit) }()
		<-time.After(10*limit - time.Second)
		wantRows(t, f.timeouts())
		if err := <-waited; err != nil {
			t.Fatal(err)
		}
		<-time.After(limit - time.Second)
		wantRows(t, f.timeouts())
		<-time.After(2 * time.Second)
		want(t, "notes when it does not wait any more", len(f.timeouts()), 1)
	})
}

// Each silence is told once: not again by another process, nor after a restart, nor for as long as it lasts. The next
// one is told again.
func TestSilenceIsToldOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addLimited("a")
	last := f.send("a", "pm")
	f.deliver()
	f.clock.advance(limit)
	want(t, "next run", f.nextDue(), f.stamp())
	want(t, "notes", len(f.timeouts()), 1)
	f.clock.advance(100 * limit)
	if _, err := f.open().DeliverAll(t.Context(), delivery.Options{}); err != nil {
		t.Fatal(err)
	}
	want(t, "notes much later", len(f.timeouts()), 1)
	var note struct {
		Agent    string `json:"agent"`
		Since    string `json:"silent_since"`
		Limit    int    `json:"silent_after_seconds"`
		LastID   string `json:"last_message_id"`
		Status   string `json:"status"`
		Sentence string `json:"message"`
	}
	payload := f.rows(`SELECT payload FROM agent_message WHERE message_type = 'agent_timeout'`)[0]
	if err := json.Unmarshal([]byte(payload), &note); err != nil {
		t.Fatal(err)
	}
	want(t, "limit", note.Limit, 600)
	want(t, "last message", note.LastID, last)
	want(t, "sentence", note.Sentence, "nothing was heard of a for more than 10m")

	f.send("a", "pm")
	want(t, "status", f.standing("a").Status, orchestrator.Working)
	f.clock.advance(limit)
	want(t, "notes after another silence", len(f.timeouts()), 2)
}

// Only who works can be silent.
func TestIdleAgentsAreNotSilent(t *testing.T) {
	t.Parallel()
	for _, status := range []orchestrator.PresenceStatus{orchestrator.Idle, orchestrator.Stopped} {
		f := newFixture(t)
		f.addLimited("a")
		f.send("a", "pm")
		f.says("a", "pm", "s", status)
		f.clock.advance(2 * limit)
		wantRows(t, f.timeouts())
		want(t, "status", f.standing("a").Status, status)
		f.says("a", "pm", "s", orchestrator.Working)
		f.clock.advance(limit)
		want(t, "notes", len(f.timeouts()), 1)
	}
	f := newFixture(t) // the latest word counts, in whatever session it was said
	f.addLimited("a")
	f.says("a", "pm", "s", orchestrator.Working)
	f.clock.advance(time.Second)
	f.says("a", "pm", "another", orchestrator.Idle)
	f.clock.advance(2 * limit)
	wantRows(t, f.timeouts())
}

// A clock that was set forward and back neither tells twice nor forgets to tell.
func TestSilenceWhenTheClockJumps(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addLimited("a")
	f.clock.advance(90 * 24 * time.Hour)
	f.send("a", "pm") // its silence is planned far ahead now
	f.clock.advance(-90 * 24 * time.Hour)
	f.deliver()
	f.clock.advance(limit)
	want(t, "notes when the time set forward is over", len(f.timeouts()), 1)

	f.send("a", "pm")
	f.clock.advance(90 * 24 * time.Hour)
	want(t, "notes of the far future", len(f.timeouts()), 2)
	f.clock.advance(-90 * 24 * time.Hour)
	want(t, "notes back from there", len(f.timeouts()), 2)
	f.clock.advance(limit)
	want(t, "notes back from there and later", len(f.timeouts()), 2)
}

// Another limit counts from what was heard before; without one nothing is watched.
func TestLimitToSilenceIsChanged(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "pm", "a")
	change := func(d time.Duration) { f.add(agents.Update{Name: "a", SilentAfter: &d}) }
	change(limit)
	f.clock.advance(2 * limit)
	wantRows(t, f.timeouts()) // it was never started, for all that is known
	f.send("a", "pm")
	change(2 * limit)
	f.clock.advance(limit)
	wantRows(t, f.timeouts())
	change(limit)
	want(t, "notes under a limit that is over already", len(f.timeouts()), 1)
	change(3 * limit)
	want(t, "status under a longer one", f.standing("a").Status, orchestrator.Working)
	f.clock.advance(limit)
	want(t, "notes", len(f.timeouts()), 1)
	f.clock.advance(limit)
	want(t, "notes when that is over, too", len(f.timeouts()), 2)
	change(0)
	want(t, "status without a limit", string(f.standing("a").Status), "")
	f.send("a", "pm")
	f.clock.advance(100 * limit)
	want(t, "notes without a limit", len(f.timeouts()), 2)
	wantRows(t, f.rows(`SELECT * FROM heartbeats`))

	f.says("a", "pm", "s", orchestrator.Working) // one that works is watched from then on
	change(limit)
	f.clock.advance(limit)
	want(t, "notes", len(f.timeouts()), 3)
}

// When nobody has the name of the manager, the silence shows where one looks, and it is told of once somebody else is named.
func TestSilenceWithoutAManager(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "lead")
	f.setting("ralph.pm", "boss")
	f.add(agents.Update{Name: "a", SilentAfter: new(limit)})
	f.send("a", "lead")
	f.clock.advance(limit)
	wantRows(t, f.timeouts())
	want(t, "status", f.standing("a").Status, overview.Silent)
	want(t, "untold", f.standing("a").Untold, true)
	found := false
	for _, finding := range overview.Doctor(t.Context(), f.Ledger, false) {
		found = found || finding.Check == "silent agents" && finding.Level == "problem"
	}
	want(t, "doctor finds it", found, true)
	f.setting("ralph.pm", "Lead")
	f.send("a", "lead")
	f.clock.advance(limit)
	want(t, "notes", len(f.timeouts()), 1)
	f.setting("ralph.pm", "-")
	f.send("a", "lead")
	f.clock.advance(limit)
	want(t, "notes to nobody", len(f.timeouts()), 1)
	_, err := f.SetSetting(t.Context(), "ralph.pm", "no name")
	wantCode(t, err, orchestrator.InvalidParams)
}

// An agent that is removed leaves nothing behind that would be told.
func TestSilenceOfARemovedAgent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addLimited("a")
	f.send("a", "pm")
	if _, err := delivery.RemoveAgent(t.Context(), f.Ledger, delivery.Removal{Name: "a", Force: true}); err != nil {
		t.Fatal(err)
	}
	f.clock.advance(2 * limit)
	wantRows(t, f.timeouts())
	wantRows(t, f.rows(`SELECT * FROM heartbeats`))
}
