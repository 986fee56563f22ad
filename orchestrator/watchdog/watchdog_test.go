package watchdog_test

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mailroom/orchestrator"
	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/delivery"
	"mailroom/orchestrator/ledger"
	"mailroom/orchestrator/messages"
	"mailroom/orchestrator/orchestratortest/enginetest"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/overview"
	"mailroom/orchestrator/program"
	"mailroom/orchestrator/reading"
	"mailroom/orchestrator/router"
	"mailroom/orchestrator/sessions"
	"mailroom/orchestrator/teams"
	"mailroom/orchestrator/transport"
	"mailroom/orchestrator/watchdog"
)

const presenceOf = `SELECT status FROM presence WHERE agent = ? ORDER BY since DESC, rowid DESC LIMIT 1`

// A session is started for a message, gets its environment, and is monitored until it ends.
func TestASessionIsStartedForItsMessage(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.addActor("builder")
	f.watch()
	id := f.task("builder")
	a := f.next()
	want.Equal(t, "agent", a.agent, "builder")
	want.Equal(t, "message", a.id, id)
	want.Equal(t, "unread", a.unread, 1)
	want.Equal(t, "bytes of standard input", a.input, 0)
	here, err := filepath.EvalSymlinks(f.folder)
	if err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "folder", a.folder, here)
	f.until(fmt.Sprint(a.pid), `SELECT pid FROM agent_runs WHERE agent = 'builder' AND state = 'running'`)
	f.until("working", presenceOf, "builder")
	want.Equal(t, "messages that it reads", a.do("read"), "1")
	a.do("print", "all done")
	a.end("exit", 0)
	run := f.untilRun("builder", sessions.Ended)
	want.Equal(t, "outcome", run.Outcome, "exit status 0")
	want.Equal(t, "starts", run.Starts, int64(1))
	want.Equal(t, "starts by its own notes", f.starts("builder"), 1)
	f.until("idle", presenceOf, "builder")

	spans := f.Rows(`SELECT name, status, '00-' || trace_id || '-' || span_id || '-01', attributes FROM command_trace
		WHERE name LIKE 'start %'`)
	want.Equal(t, "spans", len(spans), 1)
	head, attributes, _ := strings.Cut(spans[0], " {")
	want.Equal(t, "span", head, "start builder OK "+a.parent)
	var said struct {
		Agent, Outcome, Output string
		PID                    int
	}
	if err := json.Unmarshal([]byte("{"+attributes), &said); err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "output", said.Output, "I am builder\nall done\n")
	want.Equal(t, "agent in the span", said.Agent, "builder")
	want.Equal(t, "outcome in the span", said.Outcome, "exit status 0")
	want.Equal(t, "pid in the span", said.PID, a.pid)
}

// A message that comes while a session runs starts the next session when that has ended. A session that has read
// everything is the last.
func TestWhatComesMeanwhileStartsTheNext(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.addActor("builder")
	f.watch()
	f.task("builder")
	first := f.next()
	first.do("read")
	second := f.task("builder")
	f.task("builder")
	first.end("exit", 0)
	next := f.next()
	want.Equal(t, "message", next.id, second)
	want.Equal(t, "unread", next.unread, 2)
	want.Equal(t, "read", next.do("read"), "2")
	next.end("exit", 0)
	f.untilRun("builder", sessions.Ended)
	f.addActor("zebra") // checked after builder
	f.task("zebra")
	want.Equal(t, "who is next", f.next().agent, "zebra")
	want.Equal(t, "starts", f.run("builder").Starts, int64(2))
	want.Equal(t, "starts by its own notes", f.starts("builder"), 2)
}

// A session that succeeds and has read some of its messages is followed by another for the rest.
func TestWhatIsLeftStartsTheNext(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.addActor("builder")
	f.task("builder")
	f.task("builder")
	f.task("builder")
	f.watch()
	for left := 3; left > 0; left-- {
		a := f.next()
		want.Equal(t, "unread", a.unread, left)
		want.Equal(t, "read", a.do("read-one"), "1")
		a.end("exit", 0)
	}
	run := f.untilRun("builder", sessions.Ended)
	want.Equal(t, "starts", run.Starts, int64(3))
	want.Equal(t, "failures", run.Failures, int64(0))
}

// Failing sessions are started again by the retry schedule, to the millisecond, then given up until there is a new
// message. The manager is notified once.
func TestSessionsThatFailClimbTheLadder(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(a *actor){
		"exit status 7":    func(a *actor) { a.end("exit", 7) },
		"ended by SIGKILL": func(a *actor) { a.end("crash") },
		"exit status 0, but the agent has not read any of its messages": func(a *actor) { a.end("exit", 0) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, enginetest.NewClock())
			f.addActor("builder")
			f.addActor("zebra")
			f.watch()
			id := f.task("builder")
			for i, wait := range []time.Duration{0, 5 * time.Second, 30 * time.Second, 2 * time.Minute,
				10 * time.Minute} {
				if wait > 0 {
					f.Clock.Advance(wait - time.Millisecond)
					f.task("zebra")
					early := f.next()
					want.Equal(t, "who starts a millisecond early", early.agent, "zebra") // builder was checked before
					early.do("read")
					early.end("exit", 0)
					f.untilRun("zebra", sessions.Ended)
					f.Clock.Advance(time.Millisecond)
				}
				a := f.next()
				want.Equal(t, "who starts", a.agent, "builder")
				fail(a)
				f.until(fmt.Sprint(i+1),
					`SELECT failures FROM agent_runs WHERE agent = 'builder' AND state <> 'running'`)
				want.Equal(t, "outcome", f.run("builder").Outcome, name+"; last output: I am builder")
			}
			want.Equal(t, "state", f.run("builder").State, sessions.GivenUp)
			f.Clock.Advance(24 * time.Hour)
			f.task("zebra")
			want.Equal(t, "who starts a day later", f.next().agent, "zebra")
			want.Equal(t, "notes",
				fmt.Sprint(f.Rows(`SELECT recipient, priority, json_extract(payload, '$.agent'),
					json_extract(payload, '$.failures')
				FROM agent_message WHERE message_type = 'agent_failed'`)), "[pm 2 builder 5]")
			reasons, err := overview.Why(t.Context(), f.Ledger, id)
			if err != nil ||
				!strings.Contains(reasons[0].Rule,
					"is not started again after 5 failures ("+name+"; last output: I am builder)") {
				t.Errorf("why says %+v, %v", reasons, err)
			}
			f.task("builder")
			a := f.next()
			want.Equal(t, "unread after a new message", a.unread, 2)
			a.do("read")
			a.end("exit", 0)
			run := f.untilRun("builder", sessions.Ended)
			want.Equal(t, "failures after success", run.Failures, int64(0))
			want.Equal(t, "starts", run.Starts, int64(6))
			want.Equal(t, "starts by its own notes", f.starts("builder"), 6)
			noZombies(t)
		})
	}
}

// A session that cannot be started has failed. A new command starts it at once.
func TestSessionsThatCannotBeStarted(t *testing.T) {
	t.Parallel()
	f := newFixture(t, enginetest.NewClock())
	gone := filepath.Join(f.folder, "gone")
	if err := os.Mkdir(gone, 0o700); err != nil {
		t.Fatal(err)
	}
	f.addActor("builder", func(u *agents.Update) { u.Folder = gone })
	if err := os.Remove(gone); err != nil {
		t.Fatal(err)
	}
	f.watch()
	f.task("builder")
	run := f.untilRun("builder", sessions.Failed)
	if !strings.Contains(run.Outcome, "does not exist") || run.PID != 0 {
		t.Errorf("the run is %+v", run)
	}
	f.addActor("builder")
	a := f.next()
	a.do("read")
	a.end("exit", 0)
	want.Equal(t, "starts", f.untilRun("builder", sessions.Ended).Starts, int64(2))
}

// The session of an agent with another transport is started after a delivery. Nobody can tell what such an agent
// reads: its success is accepted, and after a failure it is started again.
func TestSessionsBesideAnotherTransport(t *testing.T) {
	t.Parallel()
	f := newFixture(t, enginetest.NewClock())
	target := "jsonl:" + filepath.Join(f.folder, "mail.jsonl")
	f.addActor("builder", func(u *agents.Update) { u.Deliver = &target })
	f.addActor("zebra")
	f.watch()
	id := f.task("builder")
	a := f.next()
	want.Equal(t, "message", a.id, id)
	f.task("builder")
	a.end("exit", 0)
	a = f.next()
	want.Equal(t, "unread", a.unread, 1)
	for _, rung := range []time.Duration{5 * time.Second, 30 * time.Second} {
		a.end("exit", 1)
		f.untilRun("builder", sessions.Failed)
		f.Clock.Advance(rung)
		a = f.next()
		want.Equal(t, "who starts again", a.agent, "builder")
	}
	a.end("exit", 0)
	f.untilRun("builder", sessions.Ended)
	f.Clock.Advance(time.Hour)
	f.task("zebra")
	want.Equal(t, "who starts an hour later", f.next().agent, "zebra")
	f.task("builder")
	want.Equal(t, "who starts after another message", f.next().agent, "builder")
	want.Equal(t, "starts by its own notes", f.starts("builder"), 5)
}

// Messages that test a transport start no session, and neither do messages for a stopped agent. The output of `why`
// reports this.
func TestWhatStartsNoSession(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	target := "jsonl:" + filepath.Join(f.folder, "mail.jsonl")
	f.addActor("builder")
	f.addActor("caster", func(u *agents.Update) { u.Deliver = &target })
	f.addActor("drawer")
	f.addActor("zebra")
	f.stop("drawer")
	f.watch()
	if _, err := delivery.TryTransports(t.Context(), f.Ledger); err != nil {
		t.Fatal(err)
	}
	id := f.task("drawer")
	f.task("zebra")
	want.Equal(t, "who is started", f.next().agent, "zebra")
	want.Equal(t, "runs", fmt.Sprint(f.Rows(`SELECT agent FROM agent_runs`)), "[zebra]")
	reasons, err := overview.Why(t.Context(), f.Ledger, id)
	if err != nil || !strings.Contains(reasons[0].Rule, "is not started because the agent stopped") {
		t.Errorf("why says %+v, %v", reasons, err)
	}
	if _, err := agents.Join(t.Context(), f.Ledger, agents.Joining{Session: "default", Agent: "drawer"}); err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "who is started once it works again", f.next().agent, "drawer")
}

// stop approves an agent's shutdown.
func (f *fixture) stop(agent string) {
	f.T.Helper()
	d := orchestrator.Draft{Sender: "boss", Recipient: agent, Type: orchestrator.ShutdownRequest, SessionID: "default"}
	asked, err := teams.Ask(f.T.Context(), f.Ledger,
		teams.Request{Kind: orchestrator.Shutdown, Draft: d, Payload: func(string) (json.RawMessage, error) {
			return json.RawMessage(`{}`), nil
		}})
	if err != nil {
		f.T.Fatal(err)
	}
	if _, _, err := reading.Wait(f.T.Context(), f.Ledger, reading.Options{Recipient: agent, Limit: 100}); err != nil {
		f.T.Fatal(err)
	}
	d = orchestrator.Draft{Sender: agent, Recipient: "boss", Type: orchestrator.ShutdownResponse, SessionID: "default",
		Payload: json.RawMessage(`{}`)}
	if _, err := teams.Answer(f.T.Context(), f.Ledger,
		teams.Reply{Kind: orchestrator.Shutdown, RequestID: asked.RequestID, Approve: true, Draft: d}); err != nil {
		f.T.Fatal(err)
	}
}

// When an agent approves its shutdown, its session and the commands of the transport exec are ended, with SIGTERM,
// or with SIGKILL if they ignore that. This is not a failure.
func TestShutdownEndsTheSession(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		grace   time.Duration
		deaf    bool
		outcome string
	}{
		"one that hears":    {time.Hour, false, "ended by SIGTERM (the agent has stopped)"},
		"one that does not": {time.Millisecond, true, "ended by SIGKILL (the agent has stopped)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, nil)
			f.addActor("builder")
			f.watch(func(w *watchdog.Watchdog) { w.Grace = c.grace })
			f.task("builder")
			a := f.next()
			if c.deaf {
				a.do("deaf")
			}
			command, err := program.Start(t.Context(),
				program.Command{Text: "exec sleep 1000", Key: program.KeyOf(f.Path, "builder"), Grace: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			f.stop("builder")
			a.ended()
			run := f.untilRun("builder", sessions.Ended)
			want.Equal(t, "outcome", run.Outcome, c.outcome)
			want.Equal(t, "failures", run.Failures, int64(0))
			want.Equal(t, "how the other command ended", command.Wait().Ended, program.ErrStopped)
			f.until("stopped", presenceOf, "builder")
			noZombies(t)
		})
	}
}

// Commands of an agent that stopped before the watchdog started are left alone, because they began later.
func TestWhatBeganAfterTheShutdown(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.addActor("builder")
	f.addActor("zebra")
	f.stop("builder")
	command, err := program.Start(t.Context(),
		program.Command{Text: "exec sleep 1000", Key: program.KeyOf(f.Path, "builder"), Grace: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	f.watch()
	f.task("zebra")
	want.Equal(t, "who is started", f.next().agent, "zebra")
	command.End(nil)
	if ended := command.Wait().Ended; ended != nil {
		t.Errorf("it was ended: %v", ended)
	}
}

// Background processes of a session do not prevent the start of the next.
func TestWhatASessionLeavesRunning(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.addActor("builder")
	f.watch()
	f.task("builder")
	a := f.next()
	left := a.do("fork")
	t.Cleanup(func() { killPID(t, left) })
	a.do("read")
	a.end("exit", 0)
	f.untilRun("builder", sessions.Ended)
	f.task("builder")
	f.next().do("read")
	want.Equal(t, "starts by its own notes", f.starts("builder"), 2)
}

// The end of a session is recorded as soon as the database is writable again, and nobody starts the next one
// before.
func TestASessionEndsWhileTheDatabaseIsLocked(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	impatient, err := router.Open(t.Context(), ledger.Options{
		Path: f.Path, Log: slog.New(slog.DiscardHandler), BusyTimeout: 20 * time.Millisecond,
		Transports: map[string]orchestrator.Transport{"inbox": transport.Inbox{}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer impatient.Close()
	f.addActor("builder")
	f.watch(func(w *watchdog.Watchdog) { w.Ledger = impatient.Ledger })
	f.task("builder")
	a := f.next()
	f.until(fmt.Sprint(a.pid), `SELECT pid FROM agent_runs`)
	a.do("read")
	f.task("builder")
	plain, err := sql.Open("sqlite3", f.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	lock, err := plain.Conn(t.Context())
	if err == nil {
		_, err = lock.ExecContext(t.Context(), "BEGIN IMMEDIATE")
	}
	if err != nil {
		t.Fatal(err)
	}
	a.end("exit", 0)
	for range 3 { // time for attempts to record the end that fail
		if _, err := messages.Send(t.Context(), impatient.Ledger,
			orchestrator.Draft{Sender: "boss", Recipient: "pm"}); orchestrator.CodeOf(err) != orchestrator.Busy {
			t.Fatalf("%v; want busy", err)
		}
	}
	want.Equal(t, "state", f.run("builder").State, sessions.Running)
	want.Equal(t, "starts by its own notes", f.starts("builder"), 1)
	if _, err := lock.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "unread", f.next().unread, 1)
	want.Equal(t, "starts by its own notes", f.starts("builder"), 2)
	f.until("1", `SELECT count(*) FROM command_trace WHERE name = 'start builder'
		AND json_extract(attributes, '$.outcome') = 'exit status 0'`)
}

// A session that is silent past its limit goes on, and the manager is notified once.
func TestASilentSessionGoesOn(t *testing.T) {
	t.Parallel()
	f := newFixture(t, enginetest.NewClock())
	f.addActor("builder", func(u *agents.Update) { u.SilentAfter = new(time.Minute) })
	f.watch()
	f.task("builder")
	a := f.next()
	for range 3 {
		f.Clock.Advance(time.Minute)
		f.task("boss")
	}
	want.Equal(t, "notes",
		fmt.Sprint(f.Rows(`SELECT recipient, json_extract(payload, '$.agent'), json_extract(payload, '$.status')
		FROM agent_message WHERE message_type = 'agent_timeout'`)), "[pm builder working]")
	standing, err := overview.StandingOf(t.Context(), f.Ledger, "builder")
	if err != nil {
		t.Fatal(err)
	}
	want.Equal(t, "status", standing.Status, overview.Silent)
	want.Equal(t, "what it reads afterwards", a.do("read"), "1")
	a.end("exit", 0)
	want.Equal(t, "outcome", f.untilRun("builder", sessions.Ended).Outcome, "exit status 0")
	f.Clock.Advance(time.Hour)
	f.task("boss")
	want.Equal(t, "notes when it is idle",
		len(f.Rows(`SELECT 1 FROM agent_message WHERE message_type = 'agent_timeout'`)), 1)
}

// killPID kills a background process of a session.
func killPID(t *testing.T, pid string) {
	n, err := strconv.Atoi(pid)
	if err == nil {
		err = unix.Kill(n, unix.SIGKILL)
	}
	if err != nil {
		t.Error(err)
	}
}
