package sessions_test

import (
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/hosts"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/process"
	"mailroom/orchestrator/removal"
	"mailroom/orchestrator/sessions"
	"mailroom/orchestrator/teams"
	"mailroom/tracing"
)

// session returns the session of the one agent that has a start command.
func session(f *enginetest.Fixture, s *sessions.Sessions) sessions.Session {
	f.T.Helper()
	list, err := s.Look(f.T.Context())
	if err != nil || len(list) != 1 {
		f.T.Fatalf("%+v, %v", list, err)
	}
	return list[0]
}

func begin(f *enginetest.Fixture, s *sessions.Sessions) *sessions.Begun {
	f.T.Helper()
	b, err := s.Begin(f.T.Context(), "a", "")
	if err != nil {
		f.T.Fatal(err)
	}
	return b
}

// addSession adds agent a, whose session the test plays, and returns a Sessions.
func addSession(f *enginetest.Fixture, deliver string) *sessions.Sessions {
	f.T.Helper()
	f.Add(agents.Update{Name: "b"})
	f.Add(agents.Update{Name: "a", Deliver: &deliver, StartCommand: new("true")})
	return sessions.New(f.Ledger)
}

// A start that never got a process is repeated. A start that got one may have done its work, and is not repeated if
// nobody can tell.
func TestRunsWhoseWatchdogDied(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		deliver string
		pid     int
		again   bool
	}{
		"not started":                        {"wire:a", 0, true},
		"started, and nobody knows":          {"wire:a", 42, false},
		"started, and its inbox is not read": {"inbox", 42, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := enginetest.New(t)
			s := addSession(f, c.deliver)
			f.Send("b", "a")
			f.Deliver()
			b := begin(f, s)
			if b == nil || b.Unread != 1 {
				t.Fatalf("%+v", b)
			}
			if c.pid > 0 {
				if err := s.Started(t.Context(), b, c.pid); err != nil {
					t.Fatal(err)
				}
			}
			f.Clock.Advance(time.Second)
			want.Equal(t, "it runs", session(f, s).Running, true)
			again := begin(f, sessions.New(f.Open().Ledger)) // the next watchdog
			if (again != nil) != c.again || again != nil && again.Unread != 1 {
				t.Errorf("again: %+v", again)
			}
			// A late report of the first watchdog changes nothing.
			before := f.Rows(`SELECT * FROM agent_runs`)
			if again != nil {
				if err := s.End(t.Context(), b, sessions.RunEnd{Outcome: "late", Failed: true}); err != nil {
					t.Fatal(err)
				}
				want.Rows(t, f.Rows(`SELECT * FROM agent_runs`), before...)
			}
		})
	}
}

// Messages for which a session was given up do not start it again. Any later message does, even one in the same
// millisecond.
func TestWhatIsNewAfterGivingUp(t *testing.T) {
	t.Parallel()
	for _, deliver := range []string{"inbox", "wire:a"} {
		t.Run(deliver, func(t *testing.T) {
			t.Parallel()
			f := enginetest.New(t)
			s := addSession(f, deliver)
			come := func() {
				f.Send("b", "a")
				f.Deliver()
			}
			fail := func() {
				t.Helper()
				if err := s.End(t.Context(), begin(f, s),
					sessions.RunEnd{Outcome: "exit status 1", Failed: true}); err != nil {
					t.Fatal(err)
				}
			}
			come()
			come()
			for fail(); f.Standing("a").Run.State != sessions.GivenUp; fail() {
				f.Clock.Advance(time.Hour)
				want.Equal(t, "wanted an hour after a failure", session(f, s).Wanted, true)
			}
			want.Equal(t, "wanted when it was given up", session(f, s).Wanted, false)
			come()
			want.Equal(t, "wanted for what came in the millisecond of the last start", session(f, s).Wanted, true)
			want.Equal(t, "wanted for it at the next look", session(f, s).Wanted, true)
			for fail(); f.Standing("a").Run.State != sessions.GivenUp; fail() {
				f.Clock.Advance(time.Hour)
				come()
			}
			want.Equal(t, "wanted for what came in the millisecond of the start that was for it", session(f, s).Wanted,
				false)
			f.Clock.Advance(time.Second)
			want.Equal(t, "wanted when it was given up again", session(f, s).Wanted, false)
			come()
			want.Equal(t, "wanted for what came later", session(f, s).Wanted, true)
			want.Equal(t, "wanted by the next watchdog", session(f, sessions.New(f.Ledger)).Wanted, true)
		})
	}
}

// An ended session no longer works anywhere, whatever its status was and in which session.
func TestTheEndOfASessionIsEverywhere(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t)
	s := addSession(f, "inbox")
	f.Send("b", "a")
	f.Deliver()
	b := begin(f, s)
	for session, status := range map[string]orchestrator.PresenceStatus{"other": orchestrator.Working,
		"third": orchestrator.Stopped} {
		f.SayStatus("a", "b", session, status)
	}
	if err := s.End(t.Context(), b, sessions.RunEnd{Outcome: "exit status 1", Failed: true}); err != nil {
		t.Fatal(err)
	}
	want.Rows(t, f.Rows(`SELECT session_id, status FROM presence ORDER BY session_id`), "default idle", "other idle",
		"third stopped")
}

// The lead of the team is notified once when a started session ends, in whatever way, unless the agent itself has
// done so. The end of the lead's own session notifies nobody. A notice that cannot be delivered does not come back,
// because it would start the session again.
func TestLeadHearsOfTheEndOfASession(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t, "first")
	f.Clock.Advance(time.Second)
	s := addSession(f, "inbox")
	told := func() []string {
		return f.Rows(`SELECT sender, recipient, session_id, payload FROM agent_message
			WHERE message_type = 'idle_notification' ORDER BY seq`)
	}
	run := func(e sessions.RunEnd, says func()) {
		t.Helper()
		f.Clock.Advance(time.Hour)
		f.Send("b", "a")
		f.Deliver()
		b := begin(f, s)
		if b == nil {
			t.Fatal("nothing was begun")
		}
		says()
		f.Take("a")
		if err := s.End(t.Context(), b, e); err != nil {
			t.Fatal(err)
		}
	}
	works := func() { f.SayStatus("a", "first", "other", orchestrator.Working) }
	run(sessions.RunEnd{Outcome: "exit status 0"}, works)
	first := `a first default {"type":"idle_notification","from":"a","reason":"exit status 0"}`
	want.Rows(t, told(), first)
	run(sessions.RunEnd{Outcome: "exit status 0"}, func() {
		if _, err := teams.EndTurn(t.Context(), f.Ledger, "b",
			orchestrator.Draft{Sender: "a", Type: "idle_notification", SessionID: "default"}); err != nil {
			t.Fatal(err)
		}
	})
	want.Rows(t, told(), first, "a b default null")
	if _, err := agents.SetGroup(t.Context(), f.Ledger, "other", []string{"a", "b"}); err != nil {
		t.Fatal(err)
	}
	f.Add(agents.Update{Name: "b", Role: new("Team-Lead")})
	run(sessions.RunEnd{Outcome: "exit status 1", Failed: true}, works)
	second := `a b default {"type":"idle_notification","from":"a","reason":"exit status 1"}`
	want.Rows(t, told(), first, "a b default null", second)
	f.Wire.Set(enginetest.Failing("no"))
	f.Add(agents.Update{Name: "b", Deliver: new("wire:b")})
	run(sessions.RunEnd{Outcome: "exit status 0"}, works)
	f.Add(agents.Update{Name: "b", Role: new("")})
	f.Add(agents.Update{Name: "a", Role: new("team-lead")})
	run(sessions.RunEnd{Outcome: "exit status 0"}, works)
	want.Equal(t, "times told", len(told()), 4)
	for range 5 {
		f.Clock.Advance(time.Hour)
		f.Deliver()
	}
	want.Rows(t, f.Rows(`SELECT DISTINCT status FROM agent_message WHERE recipient = 'b'
		AND message_type = 'idle_notification' AND delivered_at IS NULL`), "failed")
	want.Rows(t, f.Rows(`SELECT count(*) FROM agent_message WHERE message_type = 'error_report' AND recipient = 'a'`),
		"0")
}

// Once there is a new message, a session that was given up has the whole retry schedule again.
func TestLadderAfterItWasGivenUp(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t)
	s := addSession(f, "inbox")
	f.Set("start.ladder", "1s,2s")
	for range 2 {
		f.Send("b", "a")
		f.Deliver()
		for _, after := range []string{"failed 1", "failed 2", "given_up 3"} {
			f.Clock.Advance(time.Minute)
			b := begin(f, s)
			if b == nil {
				t.Fatal("it is not wanted")
			}
			if err := s.End(t.Context(), b, sessions.RunEnd{Outcome: "exit status 1", Failed: true}); err != nil {
				t.Fatal(err)
			}
			want.Rows(t, f.Rows(`SELECT state, failures FROM agent_runs`), after)
		}
	}
}

// The end of a session whose agent was removed meanwhile is in the trace, and restores nothing of the agent.
func TestASessionOfARemovedAgent(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t)
	s := addSession(f, "inbox")
	f.Send("b", "a")
	f.Deliver()
	b := begin(f, s)
	if _, err := removal.Remove(t.Context(), f.Ledger, removal.Request{Name: "a", Force: true}); err != nil {
		t.Fatal(err)
	}
	if err := s.End(t.Context(), b, sessions.RunEnd{Outcome: "exit status 1", Failed: true}); err != nil {
		t.Fatal(err)
	}
	want.Rows(t, f.Rows(`SELECT * FROM agent_runs`))
	want.Rows(t, f.Rows(`SELECT * FROM presence`))
	want.Rows(t, f.Rows(`SELECT name, status, status_message FROM command_trace`), "start a ERROR exit status 1")
	if again := begin(f, s); again != nil {
		t.Errorf("it is started: %+v", again)
	}
}

// The manager is not notified of failures of its own session, because that would start it again forever.
func TestTheManagersSessionFails(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t)
	s := addSession(f, "inbox")
	f.Set("ralph.pm", "a")
	f.Set("start.ladder", "1s")
	f.Send("b", "a")
	f.Deliver()
	for range 2 {
		b := begin(f, s)
		if b == nil {
			t.Fatal("it is not wanted")
		}
		if err := s.End(t.Context(), b, sessions.RunEnd{Outcome: "exit status 1", Failed: true}); err != nil {
			t.Fatal(err)
		}
		f.Clock.Advance(time.Second)
		f.Deliver()
	}
	want.Equal(t, "it is wanted after that", session(f, s).Wanted, false)
	want.Rows(t, f.Rows(`SELECT state, failures FROM agent_runs`), "given_up 2")
	want.Rows(t, f.Rows(`SELECT message_type FROM agent_message WHERE sender = 'system'`))
}

// A wait before the next start that results from a clock set forward and back is ignored.
func TestStartLadderWhenTheClockJumps(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t)
	s := addSession(f, "inbox")
	f.Send("b", "a")
	f.Deliver()
	b := begin(f, s)
	f.Clock.Advance(48 * time.Hour)
	if err := s.End(t.Context(), b, sessions.RunEnd{Outcome: "exit status 1", Failed: true}); err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "it is wanted at once", session(f, s).Wanted, false)
	want.Equal(t, "when it is wanted", session(f, s).NextAt, f.Clock.Now().Add(5*time.Second))
	f.Clock.Advance(-48 * time.Hour)
	want.Equal(t, "it is wanted back from there", session(f, s).Wanted, true)
}

// A message that is delivered late, after messages that were sent later, also starts a session. A message that was
// acknowledged meanwhile does not.
func TestWhatComesLateStartsASession(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t)
	s := addSession(f, "wire:a")
	end := func() {
		t.Helper()
		b := begin(f, s)
		if b == nil {
			t.Fatal("it is not wanted")
		}
		if err := s.End(t.Context(), b, sessions.RunEnd{Outcome: "exit status 0"}); err != nil {
			t.Fatal(err)
		}
	}
	f.Wire.Set(enginetest.Failing("down"))
	f.Send("b", "a")
	f.Deliver()
	f.Wire.Set(nil)
	want.Equal(t, "wanted while it is on the ladder", session(f, s).Wanted, false)
	f.Send("b", "a")
	f.Deliver()
	want.Equal(t, "wanted for the second", session(f, s).Wanted, true)
	end()
	want.Equal(t, "wanted afterwards", session(f, s).Wanted, false)
	f.Clock.Advance(30 * time.Second)
	want.Equal(t, "delivered late", f.Deliver().Delivered, 1)
	want.Equal(t, "wanted for the first", session(f, s).Wanted, true)
	end()
	f.Clock.Advance(time.Second)
	id := f.Send("b", "a")
	f.Deliver()
	if _, err := messages.Acknowledge(t.Context(), f.Ledger, id, "a"); err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "wanted for what is acknowledged", session(f, s).Wanted, false)
}

// rang reports whether a ring is waiting once all goroutines of the bubble wait.
func rang[E any](rings <-chan E) bool {
	synctest.Wait()
	select {
	case <-rings:
		return true
	default:
		return false
	}
}

// A delivery rings for an agent whose session may have to be started, whatever its transport. So does the agent's
// return.
func TestDeliveriesWakeWatchdogs(t *testing.T) {
	t.Parallel()
	for _, deliver := range []string{"inbox", "wire:a"} {
		synctest.Test(t, func(t *testing.T) {
			f := enginetest.NewBubble(t)
			defer f.Close()
			addSession(f, deliver)
			f.Add(agents.Update{Name: "c"})
			f.Send("b", "a")
			wakeups, stop, err := delivery.Wakeups(t.Context(), f.Ledger)
			if err != nil {
				t.Fatal(err)
			}
			defer stop()
			rang(wakeups) // for earlier events
			want.Equal(t, "it rings for nothing", rang(wakeups), false)
			want.Equal(t, "delivered", f.Deliver().Delivered, 1)
			want.Equal(t, "it rings for the delivery", rang(wakeups), true)
			hears := func(agent string) <-chan bool {
				rings, stop, err := f.Bell.Listen(t.Context(), agent)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(stop)
				return rings
			}
			a, b := hears("a"), hears("b")
			f.SayStatus("a", "c", "s", orchestrator.Stopped)
			want.Equal(t, "it rings when the agent stops", rang(a), true)
			f.SayStatus("a", "c", "s", orchestrator.Working)
			want.Equal(t, "it rings when the agent is back", rang(a), true)
			f.SayStatus("b", "c", "s", orchestrator.Idle)
			want.Equal(t, "it rings for who has no session", rang(b), false)
		})
	}
}

// The output of `why` for a message reflects its session. A failure shows the end of the output, in whole lines and
// whole characters.
func TestWhySaysHowTheSessionStands(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t)
	s := addSession(f, "wire:a")
	ctx, _ := tracing.Start(t.Context(), "send")
	sent, err := messages.Send(ctx, f.Ledger, orchestrator.Draft{Sender: "b", Recipient: "a"})
	if err != nil {
		t.Fatal(err)
	}
	id := sent.MessageID
	f.Deliver()
	says := func(texts ...string) {
		t.Helper()
		reasons, err := overview.Why(t.Context(), f.Ledger, id)
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range texts {
			if all := reasons[0].Where + "\n" + reasons[0].Rule + "\n" + reasons[0].Fix; !strings.Contains(all, text) {
				t.Errorf("why says %q; want %q", all, text)
			}
		}
	}
	end := func(e sessions.RunEnd) {
		t.Helper()
		f.Clock.Advance(time.Second)
		if err := s.End(t.Context(), begin(f, s), e); err != nil {
			t.Fatal(err)
		}
	}
	says("with a, delivered through wire:a", "the session of a is started by")
	end(sessions.RunEnd{Outcome: "exit status 1", Failed: true, Output: "left out " + strings.Repeat("ü", 200) +
		"\none\n\ntwo ü\n"})
	says("failed (exit status 1; last output: one two ü) and will be started again at 20",
		"Its output is in "+sessions.Output(f.Ledger, "a"))
	f.Add(agents.Update{Name: "a", StartCommand: new("false")})
	says("and will be started again immediately")
	end(sessions.RunEnd{Outcome: "exit status 2", Failed: true, Output: strings.Repeat("ü", 200)})
	says("last output: " + strings.Repeat("ü", 150) + ")")
	f.Clock.Advance(time.Hour)
	end(sessions.RunEnd{Outcome: "exit status 0", Output: "fine"})
	says("after this message was delivered, and has ended (exit status 0)")
	run, err := overview.StandingOf(t.Context(), f.Ledger, "a")
	if err != nil || run.Run.Outcome != "exit status 0" {
		t.Errorf("%+v, %v", run.Run, err)
	}
	stories, err := overview.Trace(t.Context(), f.Ledger, id)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, command := range stories[0].Commands {
		names = append(names, command.Name)
	}
	want.Equal(t, "sessions in its story", strings.Count(strings.Join(names, " "), "start a"), 3)
}

// While an agent works in a session of an agent host, no other session is started beside it.
func TestNoneIsStartedBesideAHosts(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t)
	s := addSession(f, "inbox")
	event := hosts.Event{Agent: "a", Program: "claude", Session: "one", Process: process.Of(os.Getpid())}
	happens := func(kind hosts.Kind) {
		t.Helper()
		event.Kind = kind
		if _, err := hosts.Happened(t.Context(), f.Ledger, event); err != nil {
			t.Fatal(err)
		}
	}
	happens(hosts.Started)
	id := f.Send("b", "a")
	f.Deliver()
	one := session(f, s)
	want.Equal(t, "wanted beside it", one.Wanted, false)
	want.Equal(t, "looked at again", one.NextAt.After(f.Ledger.Now()), true)
	want.Equal(t, "begun beside it", begin(f, s) == nil, true)
	reasons, err := overview.Why(t.Context(), f.Ledger, id)
	if err != nil || !strings.Contains(reasons[0].Rule, "is not started while another session of the agent is running: claude one") {
		t.Errorf("why says %+v, %v", reasons, err)
	}
	happens(hosts.Ended)
	want.Equal(t, "wanted once it is over", session(f, s).Wanted, true)
	event.Process = process.ID{} // like Codex's daemon, which outlives its sessions
	happens(hosts.Started)
	f.Send("b", "a") // the first message was shown
	f.Deliver()
	want.Equal(t, "wanted beside one that nothing wakes", session(f, s).Wanted, true)
	happens(hosts.Woken)
	f.Send("b", "a")
	f.Deliver()
	want.Equal(t, "wanted beside one that works", session(f, s).Wanted, false)
	f.Clock.Advance(time.Hour)
	want.Equal(t, "wanted when nothing was heard of that for long", session(f, s).Wanted, true)
}

// No session is started for a disabled agent, even for messages that it already has.
func TestNoneIsStartedForADisabledAgent(t *testing.T) {
	t.Parallel()
	f := enginetest.New(t)
	s := addSession(f, "inbox")
	f.Send("b", "a")
	f.Deliver()
	want.Equal(t, "wanted", session(f, s).Wanted, true)
	if _, _, err := agents.Disable(t.Context(), f.Ledger, agents.Disabling{Agent: "a"}); err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "wanted while it is disabled", session(f, s).Wanted, false)
	if _, _, err := agents.Enable(t.Context(), f.Ledger, "a"); err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "wanted once it is enabled", session(f, s).Wanted, true)
}
