package router_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/sessions"
	"mailroom/orchestrator/teams"
	"mailroom/tracing"
)

// sessions looks at the one agent that has a start command.
func (f *fixture) session(s *sessions.Sessions) sessions.Session {
	f.t.Helper()
	list, err := s.Look(f.t.Context())
	if err != nil || len(list) != 1 {
		f.t.Fatalf("%+v, %v", list, err)
	}
	return list[0]
}

func (f *fixture) begin(s *sessions.Sessions) *sessions.Begun {
	f.t.Helper()
	b, err := s.Begin(f.t.Context(), "a", "")
	if err != nil {
		f.t.Fatal(err)
	}
	return b
}

// addSession adds a, whose session the test plays, and returns who looks after it.
func (f *fixture) addSession(deliver string) *sessions.Sessions {
	f.t.Helper()
	f.add(agents.Update{Name: "b"})
	f.add(agents.Update{Name: "a", Deliver: &deliver, StartCommand: new("true")})
	return sessions.New(f.Ledger)
}

// A start that never got a process is made again; one that did may have done its work, and is not repeated where nobody can tell.
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
			f := newFixture(t)
			s := f.addSession(c.deliver)
			f.send("b", "a")
			f.deliver()
			b := f.begin(s)
			if b == nil || b.Unread != 1 {
				t.Fatalf("%+v", b)
			}
			if c.pid > 0 {
				if err := s.Started(t.Context(), b, c.pid); err != nil {
					t.Fatal(err)
				}
			}
			f.clock.advance(time.Second)
			want(t, "it runs", f.session(s).Running, true)
			again := f.begin(sessions.New(f.open().Ledger)) // the next watchdog
			if (again != nil) != c.again || again != nil && again.Unread != 1 {
				t.Errorf("again: %+v", again)
			}
			// What the first watchdog knows after all comes too late, and changes nothing.
			before := f.rows(`SELECT * FROM agent_runs`)
			if again != nil {
				if err := s.End(t.Context(), b, sessions.RunEnd{Outcome: "late", Failed: true}); err != nil {
					t.Fatal(err)
				}
				wantRows(t, f.rows(`SELECT * FROM agent_runs`), before...)
			}
		})
	}
}

// Messages for which a session was given up do not start it again; any that comes later does, be it in the same
// millisecond.
func TestWhatIsNewAfterGivingUp(t *testing.T) {
	t.Parallel()
	for _, deliver := range []string{"inbox", "wire:a"} {
		t.Run(deliver, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			s := f.addSession(deliver)
			come := func() {
				f.send("b", "a")
				f.deliver()
			}
			fail := func() {
				t.Helper()
				if err := s.End(t.Context(), f.begin(s), sessions.RunEnd{Outcome: "exit status 1", Failed: true}); err != nil {
					t.Fatal(err)
				}
			}
			come()
			come()
			for fail(); f.standing("a").Run.State != sessions.GivenUp; fail() {
				f.clock.advance(time.Hour)
				want(t, "wanted an hour after a failure", f.session(s).Wanted, true)
			}
			want(t, "wanted when it was given up", f.session(s).Wanted, false)
			come()
			want(t, "wanted for what came in the millisecond of the last start", f.session(s).Wanted, true)
			want(t, "wanted for it at the next look", f.session(s).Wanted, true)
			for fail(); f.standing("a").Run.State != sessions.GivenUp; fail() {
				f.clock.advance(time.Hour)
				come()
			}
			want(t, "wanted for what came in the millisecond of the start that was for it", f.session(s).Wanted, false)
			f.clock.advance(time.Second)
			want(t, "wanted when it was given up again", f.session(s).Wanted, false)
			come()
			want(t, "wanted for what came later", f.session(s).Wanted, true)
			want(t, "wanted by the next watchdog", f.session(sessions.New(f.Ledger)).Wanted, true)
		})
	}
}

// A session that has ended works nowhere any more, whatever it said where.
func TestTheEndOfASessionIsEverywhere(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.addSession("inbox")
	f.send("b", "a")
	f.deliver()
	b := f.begin(s)
	for session, status := range map[string]orchestrator.PresenceStatus{"other": orchestrator.Working, "third": orchestrator.Stopped} {
		f.says("a", "b", session, status)
	}
	if err := s.End(t.Context(), b, sessions.RunEnd{Outcome: "exit status 1", Failed: true}); err != nil {
		t.Fatal(err)
	}
	wantRows(t, f.rows(`SELECT session_id, status FROM presence ORDER BY session_id`), "default idle", "other idle", "third stopped")
}

// The lead of the team is told once when a started session ends, however it does, unless the agent has said so itself; an
// ended session of the lead tells nobody. What cannot be told comes not back: it would start the session anew.
func TestLeadHearsOfTheEndOfASession(t *testing.T) {
	t.Parallel()
	f := newFixture(t, "first")
	f.clock.advance(time.Second)
	s := f.addSession("inbox")
	told := func() []string {
		return f.rows(`SELECT sender, recipient, session_id, payload FROM agent_message WHERE message_type = 'idle_notification' ORDER BY seq`)
	}
	run := func(e sessions.RunEnd, says func()) {
		t.Helper()
		f.clock.advance(time.Hour)
		f.send("b", "a")
		f.deliver()
		b := f.begin(s)
		if b == nil {
			t.Fatal("nothing was begun")
		}
		says()
		f.take("a")
		if err := s.End(t.Context(), b, e); err != nil {
			t.Fatal(err)
		}
	}
	works := func() { f.says("a", "first", "other", orchestrator.Working) }
	run(sessions.RunEnd{Outcome: "exit status 0"}, works)
	first := `a first default {"type":"idle_notification","from":"a","reason":"exit status 0"}`
	wantRows(t, told(), first)
	run(sessions.RunEnd{Outcome: "exit status 0"}, func() {
		if _, err := teams.EndTurn(t.Context(), f.Ledger, "b", orchestrator.Draft{Sender: "a", Type: "idle_notification", SessionID: "default"}); err != nil {
			t.Fatal(err)
		}
	})
	wantRows(t, told(), first, "a b default null")
	if _, err := agents.SetGroup(t.Context(), f.Ledger, "other", []string{"a", "b"}); err != nil {
		t.Fatal(err)
	}
	f.add(agents.Update{Name: "b", Role: new("Team-Lead")})
	run(sessions.RunEnd{Outcome: "exit status 1", Failed: true}, works)
	second := `a b default {"type":"idle_notification","from":"a","reason":"exit status 1"}`
	wantRows(t, told(), first, "a b default null", second)
	f.wire.set(failing("no"))
	f.add(agents.Update{Name: "b", Deliver: new("wire:b")})
	run(sessions.RunEnd{Outcome: "exit status 0"}, works)
	f.add(agents.Update{Name: "b", Role: new("")})
	f.add(agents.Update{Name: "a", Role: new("team-lead")})
	run(sessions.RunEnd{Outcome: "exit status 0"}, works)
	want(t, "times told", len(told()), 4)
	for range 5 {
		f.clock.advance(time.Hour)
		f.deliver()
	}
	wantRows(t, f.rows(`SELECT DISTINCT status FROM agent_message WHERE recipient = 'b' AND message_type = 'idle_notification' AND delivered_at IS NULL`), "failed")
	wantRows(t, f.rows(`SELECT count(*) FROM agent_message WHERE message_type = 'error_report' AND recipient = 'a'`), "0")
}

// The end of a session whose agent was removed meanwhile is in the trace, and brings nothing of the agent back.
func TestASessionOfARemovedAgent(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.addSession("inbox")
	f.send("b", "a")
	f.deliver()
	b := f.begin(s)
	if _, err := delivery.RemoveAgent(t.Context(), f.Ledger, delivery.Removal{Name: "a", Force: true}); err != nil {
		t.Fatal(err)
	}
	if err := s.End(t.Context(), b, sessions.RunEnd{Outcome: "exit status 1", Failed: true}); err != nil {
		t.Fatal(err)
	}
	wantRows(t, f.rows(`SELECT * FROM agent_runs`))
	wantRows(t, f.rows(`SELECT * FROM presence`))
	wantRows(t, f.rows(`SELECT name, status, status_message FROM command_trace`), "start a ERROR exit status 1")
	if again := f.begin(s); again != nil {
		t.Errorf("it is started: %+v", again)
	}
}

// The manager is not told that its own session fails: that would start it again, for ever.
func TestTheManagersSessionFails(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.addSession("inbox")
	f.setting("ralph.pm", "a")
	f.setting("start.ladder", "1s")
	f.send("b", "a")
	f.deliver()
	for range 2 {
		b := f.begin(s)
		if b == nil {
			t.Fatal("it is not wanted")
		}
		if err := s.End(t.Context(), b, sessions.RunEnd{Outcome: "exit status 1", Failed: true}); err != nil {
			t.Fatal(err)
		}
		f.clock.advance(time.Second)
		f.deliver()
	}
	want(t, "it is wanted after that", f.session(s).Wanted, false)
	wantRows(t, f.rows(`SELECT state, failures FROM agent_runs`), "given_up 2")
	wantRows(t, f.rows(`SELECT message_type FROM agent_message WHERE sender = 'system'`))
}

// A wait before the next start that a clock set forward and back has left is not waited for.
func TestStartLadderWhenTheClockJumps(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.addSession("inbox")
	f.send("b", "a")
	f.deliver()
	b := f.begin(s)
	f.clock.advance(48 * time.Hour)
	if err := s.End(t.Context(), b, sessions.RunEnd{Outcome: "exit status 1", Failed: true}); err != nil {
		t.Fatal(err)
	}
	want(t, "it is wanted at once", f.session(s).Wanted, false)
	want(t, "when it is wanted", f.session(s).NextAt, f.clock.now().Add(5*time.Second))
	f.clock.advance(-48 * time.Hour)
	want(t, "it is wanted back from there", f.session(s).Wanted, true)
}

// What is delivered late, behind what was sent after it, starts a session as well; and what was acknowledged meanwhile
// starts none.
func TestWhatComesLateStartsASession(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.addSession("wire:a")
	end := func() {
		t.Helper()
		b := f.begin(s)
		if b == nil {
			t.Fatal("it is not wanted")
		}
		if err := s.End(t.Context(), b, sessions.RunEnd{Outcome: "exit status 0"}); err != nil {
			t.Fatal(err)
		}
	}
	f.wire.set(failing("down"))
	f.send("b", "a")
	f.deliver()
	f.wire.set(nil)
	want(t, "wanted while it is on the ladder", f.session(s).Wanted, false)
	f.send("b", "a")
	f.deliver()
	want(t, "wanted for the second", f.session(s).Wanted, true)
	end()
	want(t, "wanted afterwards", f.session(s).Wanted, false)
	f.clock.advance(30 * time.Second)
	want(t, "delivered late", f.deliver().Delivered, 1)
	want(t, "wanted for the first", f.session(s).Wanted, true)
	end()
	f.clock.advance(time.Second)
	id := f.send("b", "a")
	f.deliver()
	if _, err := messages.Acknowledge(t.Context(), f.Ledger, id, "a"); err != nil {
		t.Fatal(err)
	}
	want(t, "wanted for what is acknowledged", f.session(s).Wanted, false)
}

// rang reports whether something has rung, once all goroutines of the bubble wait.
func rang[E any](rings <-chan E) bool {
	synctest.Wait()
	select {
	case <-rings:
		return true
	default:
		return false
	}
}

// A delivery rings for an agent whose session may have to be started, whatever its transport; so does its coming back.
func TestDeliveriesWakeWatchdogs(t *testing.T) {
	t.Parallel()
	for _, deliver := range []string{"inbox", "wire:a"} {
		synctest.Test(t, func(t *testing.T) {
			f := bubbleFixture(t)
			defer f.Close()
			f.addSession(deliver)
			f.add(agents.Update{Name: "c"})
			f.send("b", "a")
			wakeups, stop, err := delivery.Wakeups(t.Context(), f.Ledger)
			if err != nil {
				t.Fatal(err)
			}
			defer stop()
			rang(wakeups) // for what was before
			want(t, "it rings for nothing", rang(wakeups), false)
			want(t, "delivered", f.deliver().Delivered, 1)
			want(t, "it rings for the delivery", rang(wakeups), true)
			hears := func(agent string) <-chan bool {
				rings, stop, err := f.bell.Listen(t.Context(), agent)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(stop)
				return rings
			}
			a, b := hears("a"), hears("b")
			f.says("a", "c", "s", orchestrator.Stopped)
			want(t, "it rings when the agent stops", rang(a), true)
			f.says("a", "c", "s", orchestrator.Working)
			want(t, "it rings when the agent is back", rang(a), true)
			f.says("b", "c", "s", orchestrator.Idle)
			want(t, "it rings for who has no session", rang(b), false)
		})
	}
}

// What why says of a message follows its session, and a failure shows the end of what was printed: whole lines, and
// characters that are whole.
func TestWhySaysHowTheSessionStands(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	s := f.addSession("wire:a")
	ctx, _ := tracing.Start(t.Context(), "send")
	sent, err := messages.Send(ctx, f.Ledger, orchestrator.Draft{Sender: "b", Recipient: "a"})
	if err != nil {
		t.Fatal(err)
	}
	id := sent.MessageID
	f.deliver()
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
		f.clock.advance(time.Second)
		if err := s.End(t.Context(), f.begin(s), e); err != nil {
			t.Fatal(err)
		}
	}
	says("with a, through wire:a", "the session of a is started for it by")
	end(sessions.RunEnd{Outcome: "exit status 1", Failed: true, Output: "left out " + strings.Repeat("ü", 200) + "\none\n\ntwo ü\n"})
	says("failed (exit status 1; it said last: one two ü) and is started again at 20", "What it printed is in "+sessions.Output(f.Ledger, "a"))
	f.add(agents.Update{Name: "a", StartCommand: new("false")})
	says("and is started again at once")
	end(sessions.RunEnd{Outcome: "exit status 2", Failed: true, Output: strings.Repeat("ü", 200)})
	says("it said last: " + strings.Repeat("ü", 150) + ")")
	f.clock.advance(time.Hour)
	end(sessions.RunEnd{Outcome: "exit status 0", Output: "fine"})
	says("when it was there, and has ended (exit status 0)")
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
	want(t, "sessions in its story", strings.Count(strings.Join(names, " "), "start a"), 3)
}
