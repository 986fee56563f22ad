package agents_test

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
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/removal"
	"mailroom/orchestrator/teams"
)

const limit = 10 * time.Minute

// addLimited adds an agent with a silence limit, and the manager that is notified.
func addLimited(f *enginetest.Fixture, name string) {
	f.T.Helper()
	f.Add(agents.Update{Name: "pm"})
	f.Add(agents.Update{Name: name, SilentAfter: new(limit)})
}

// timeouts returns the messages about silent agents that were sent to any agent.
func timeouts(f *enginetest.Fixture) []string {
	f.T.Helper()
	f.Deliver()
	return f.Rows(`SELECT recipient, sender, priority, json_extract(payload, '$.agent'),
		json_extract(payload, '$.silent_since')
		FROM agent_message WHERE message_type = 'agent_timeout' ORDER BY seq`)
}

// Every action of an agent counts as a sign of life, and nothing else does. Silence is counted from the last
// action.
func TestWhatIsHeardOfAnAgent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		act   func(f *enginetest.Fixture)
		heard bool
	}{
		"nothing": {func(f *enginetest.Fixture) {}, false},
		"a send":  {func(f *enginetest.Fixture) { f.Send("a", "pm") }, true},
		"a broadcast": {func(f *enginetest.Fixture) {
			if _, err := f.Say("a", teams.Teammates); err != nil {
				f.T.Fatal(err)
			}
		}, true},
		"a read": {func(f *enginetest.Fixture) { f.Send("pm", "a"); f.Take("a") }, true},
		"a read that finds nothing": {func(f *enginetest.Fixture) {
			if ms, _, err := reading.Wait(f.T.Context(), f.Ledger,
				reading.Options{Recipient: "a", Limit: 1}); err != nil || len(ms) > 0 {
				f.T.Fatalf("%v, %v", ms, err)
			}
		}, true},
		"a look that marks nothing": {func(f *enginetest.Fixture) {
			f.Send("pm", "a")
			ms, _, err := reading.Wait(f.T.Context(), f.Ledger, reading.Options{Recipient: "a", Limit: 1, Peek: true})
			if err != nil || len(ms) != 1 {
				f.T.Fatalf("%v, %v", ms, err)
			}
		}, false},
		"a look that marks nothing and finds nothing": {func(f *enginetest.Fixture) {
			ms, _, err := reading.Wait(f.T.Context(), f.Ledger, reading.Options{Recipient: "a", Limit: 1, Peek: true})
			if err != nil || len(ms) > 0 {
				f.T.Fatalf("%v, %v", ms, err)
			}
		}, false},
		"a look into a folder that finds nothing": {func(f *enginetest.Fixture) {
			in, err := letters.Wait(f.T.Context(), f.Engine,
				letters.Request{Agent: "a", Target: "wire:a", Limit: 1, Mark: true}, 0)
			if err != nil || len(in.Messages) > 0 {
				f.T.Fatalf("%v, %v", in, err)
			}
		}, true},
		"an acknowledgement": {func(f *enginetest.Fixture) {
			id := f.Send("pm", "a")
			f.Deliver()
			if _, err := messages.Acknowledge(f.T.Context(), f.Ledger, id, "a"); err != nil {
				f.T.Fatal(err)
			}
		}, true},
		"a presence": {func(f *enginetest.Fixture) {
			if _, err := agents.Join(f.T.Context(), f.Ledger,
				agents.Joining{Session: "s", Agent: "a", Description: new("tests")}); err != nil {
				f.T.Fatal(err)
			}
		}, true},
		"a row in the table": {func(f *enginetest.Fixture) {
			f.SQL(`INSERT INTO agent_message (message_id, sender, recipient, payload) VALUES ('m1', 'a', 'pm', '{}')`)
		}, true},
		"a refused send": {func(f *enginetest.Fixture) {
			if _, err := messages.Send(f.T.Context(), f.Ledger,
				orchestrator.Draft{Sender: "a", Recipient: "nobody"}); err == nil {
				f.T.Fatal("sent to nobody")
			}
		}, false},
		"a message to it": {func(f *enginetest.Fixture) { f.Send("pm", "a") }, false},
		"a change of its role": {func(f *enginetest.Fixture) { f.Add(agents.Update{Name: "a", Role: new("tests")}) },
			false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := enginetest.New(t)
			addLimited(f, "a")
			f.SayStatus("a", "pm", "s", orchestrator.Working)
			since := f.Standing("a").StatusSince
			f.Clock.Advance(limit / 2)
			c.act(f)
			f.Deliver()
			acted := f.Clock.Now().Format("2006-01-02T15:04:05.000Z")
			f.Clock.Advance(limit / 2)
			if !c.heard {
				want.Equal(t, "status", f.Standing("a").Status, overview.Silent)
				want.Rows(t, timeouts(f), "pm system 2 a "+since)
				return
			}
			want.Equal(t, "status halfway", f.Standing("a").Status, orchestrator.Working)
			want.Rows(t, timeouts(f))
			f.Clock.Advance(limit/2 - time.Millisecond)
			want.Rows(t, timeouts(f))
			f.Clock.Advance(time.Millisecond)
			want.Rows(t, timeouts(f), "pm system 2 a "+acted)
		})
	}
}

// A waiting agent counts as alive for as long as it waits.
func TestAWaitIsASignOfLife(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]func(t *testing.T, r *delivery.Engine, timeout time.Duration) error{
		"for its inbox": func(t *testing.T, r *delivery.Engine, timeout time.Duration) error {
			_, _, err := reading.Wait(t.Context(), r.Ledger,
				reading.Options{Recipient: "a", Limit: 1, Timeout: timeout})
			return err
		},
		"for its folder": func(t *testing.T, r *delivery.Engine, timeout time.Duration) error {
			_, err := letters.Wait(t.Context(), r, letters.Request{Agent: "a", Target: "wire:a", Limit: 1, Mark: true},
				timeout)
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
		f := enginetest.NewBubble(t)
		defer f.Close()
		addLimited(f, "a")
		waited := make(chan error, 1)
		go func() { waited <- wait(t, f.Engine, 10*limit) }()
		<-time.After(10*limit - time.Second)
		want.Rows(t, timeouts(f))
		if err := <-waited; err != nil {
			t.Fatal(err)
		}
		<-time.After(limit - time.Second)
		want.Rows(t, timeouts(f))
		<-time.After(2 * time.Second)
		want.Equal(t, "notes when it does not wait any more", len(timeouts(f)), 1)
	})
}

// Each silence is reported once: not again by another process, after a restart, or while it lasts. The next silence
// is reported again.
func TestSilenceIsToldOnce(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t)
	addLimited(f, "a")
	last := f.Send("a", "pm")
	f.Deliver()
	f.Clock.Advance(limit)
	want.Equal(t, "next run", f.NextDue(), f.Stamp())
	want.Equal(t, "notes", len(timeouts(f)), 1)
	f.Clock.Advance(100 * limit)
	if _, err := f.Open().DeliverAll(t.Context(), delivery.Options{}); err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "notes much later", len(timeouts(f)), 1)
	var note struct {
		Agent    string `json:"agent"`
		Since    string `json:"silent_since"`
		Limit    int    `json:"silent_after_seconds"`
		LastID   string `json:"last_message_id"`
		Status   string `json:"status"`
		Sentence string `json:"message"`
	}
	payload := f.Rows(`SELECT payload FROM agent_message WHERE message_type = 'agent_timeout'`)[0]
	if err := json.Unmarshal([]byte(payload), &note); err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "limit", note.Limit, 600)
	want.Equal(t, "last message", note.LastID, last)
	want.Equal(t, "sentence", note.Sentence, "no sign of life from a for more than 10m")

	f.Send("a", "pm")
	want.Equal(t, "status", f.Standing("a").Status, orchestrator.Working)
	f.Clock.Advance(limit)
	want.Equal(t, "notes after another silence", len(timeouts(f)), 2)
}

// Only working agents can be silent.
func TestIdleAgentsAreNotSilent(t *testing.T) {
	t.Parallel()
	for _, status := range []orchestrator.PresenceStatus{orchestrator.Idle, orchestrator.Stopped} {
		f := enginetest.New(t)
		addLimited(f, "a")
		f.Send("a", "pm")
		f.SayStatus("a", "pm", "s", status)
		f.Clock.Advance(2 * limit)
		want.Rows(t, timeouts(f))
		want.Equal(t, "status", f.Standing("a").Status, status)
		f.SayStatus("a", "pm", "s", orchestrator.Working)
		f.Clock.Advance(limit)
		want.Equal(t, "notes", len(timeouts(f)), 1)
	}
	f := enginetest.New(t) // the latest status counts, in whatever session it was set
	addLimited(f, "a")
	f.SayStatus("a", "pm", "s", orchestrator.Working)
	f.Clock.Advance(time.Second)
	f.SayStatus("a", "pm", "another", orchestrator.Idle)
	f.Clock.Advance(2 * limit)
	want.Rows(t, timeouts(f))
}

// A clock that was set forward and back causes neither a second report nor a missing one.
func TestSilenceWhenTheClockJumps(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t)
	addLimited(f, "a")
	f.Clock.Advance(90 * 24 * time.Hour)
	f.Send("a", "pm") // its silence is due far ahead now
	f.Clock.Advance(-90 * 24 * time.Hour)
	f.Deliver()
	f.Clock.Advance(limit)
	want.Equal(t, "notes when the time set forward is over", len(timeouts(f)), 1)

	f.Send("a", "pm")
	f.Clock.Advance(90 * 24 * time.Hour)
	want.Equal(t, "notes of the far future", len(timeouts(f)), 2)
	f.Clock.Advance(-90 * 24 * time.Hour)
	want.Equal(t, "notes back from there", len(timeouts(f)), 2)
	f.Clock.Advance(limit)
	want.Equal(t, "notes back from there and later", len(timeouts(f)), 2)
}

// A new limit counts from the last sign of life. Without a limit nothing is monitored.
func TestLimitToSilenceIsChanged(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "pm", "a")
	change := func(d time.Duration) { f.Add(agents.Update{Name: "a", SilentAfter: &d}) }
	change(limit)
	f.Clock.Advance(2 * limit)
	want.Rows(t, timeouts(f)) // it may never have been started
	f.Send("a", "pm")
	change(2 * limit)
	f.Clock.Advance(limit)
	want.Rows(t, timeouts(f))
	change(limit)
	want.Equal(t, "notes under a limit that is over already", len(timeouts(f)), 1)
	change(3 * limit)
	want.Equal(t, "status under a longer one", f.Standing("a").Status, orchestrator.Working)
	f.Clock.Advance(limit)
	want.Equal(t, "notes", len(timeouts(f)), 1)
	f.Clock.Advance(limit)
	want.Equal(t, "notes when that is over, too", len(timeouts(f)), 2)
	change(0)
	want.Equal(t, "status without a limit", string(f.Standing("a").Status), "")
	f.Send("a", "pm")
	f.Clock.Advance(100 * limit)
	want.Equal(t, "notes without a limit", len(timeouts(f)), 2)
	want.Rows(t, f.Rows(`SELECT * FROM heartbeats`))

	f.SayStatus("a", "pm", "s", orchestrator.Working) // a working agent is monitored from then on
	change(limit)
	f.Clock.Advance(limit)
	want.Equal(t, "notes", len(timeouts(f)), 3)
}

// If no agent has the manager's name, the silence is visible to administrators, and it is reported once another
// manager is set.
func TestSilenceWithoutAManager(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "lead")
	f.Set("ralph.pm", "boss")
	f.Add(agents.Update{Name: "a", SilentAfter: new(limit)})
	f.Send("a", "lead")
	f.Clock.Advance(limit)
	want.Rows(t, timeouts(f))
	want.Equal(t, "status", f.Standing("a").Status, overview.Silent)
	want.Equal(t, "untold", f.Standing("a").Untold, true)
	found := false
	for _, finding := range overview.Doctor(t.Context(), f.Ledger, overview.DoctorOptions{}) {
		found = found || finding.Code == "silent agents" && finding.Level == "problem"
	}
	want.Equal(t, "doctor finds it", found, true)
	f.Set("ralph.pm", "Lead")
	f.Send("a", "lead")
	f.Clock.Advance(limit)
	want.Equal(t, "notes", len(timeouts(f)), 1)
	f.Set("ralph.pm", "-")
	f.Send("a", "lead")
	f.Clock.Advance(limit)
	want.Equal(t, "notes to nobody", len(timeouts(f)), 1)
	_, err := f.SetSetting(t.Context(), "ralph.pm", "no name")
	want.Code(t, err, orchestrator.InvalidParams)
}

// A removed agent causes no reports.
func TestSilenceOfARemovedAgent(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t)
	addLimited(f, "a")
	f.Send("a", "pm")
	if _, err := removal.Remove(t.Context(), f.Ledger, removal.Request{Name: "a", Force: true}); err != nil {
		t.Fatal(err)
	}
	f.Clock.Advance(2 * limit)
	want.Rows(t, timeouts(f))
	want.Rows(t, f.Rows(`SELECT * FROM heartbeats`))
}
