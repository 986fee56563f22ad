package watchdog_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mailroom/orchestrator/agents"
	"mailroom/orchestrator/orchestratortest/helper"
	"mailroom/orchestrator/orchestratortest/want"
	"mailroom/orchestrator/program"
	"mailroom/orchestrator/sessions"
)

// A session that was lost with its watchdog, and is not started again because it may have done its work, no longer
// has a lock once its end was recorded.
func TestALostSessionKeepsNoLock(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	target := "jsonl:" + filepath.Join(f.folder, "mail.jsonl")
	f.addActor("builder", func(u *agents.Update) { u.Deliver = &target })
	f.addActor("zebra") // checked after builder
	f.task("builder")
	s := sessions.New(f.Ledger)
	begun, err := s.Begin(t.Context(), "builder", "")
	if err != nil || begun == nil {
		t.Fatalf("%+v, %v", begun, err)
	}
	if err := s.Started(t.Context(), begun, 42); err != nil {
		t.Fatal(err)
	}
	f.task("zebra")
	f.watch()
	want.Equal(t, "who is started", f.next().agent, "zebra")
	want.Equal(t, "state of the lost one", f.run("builder").State, sessions.Ended)
	slot, err := program.TakeSlot(program.SlotFolder(f.FilePrefix()), "builder.session")
	if err != nil {
		t.Fatal(err)
	}
	slot.Release()
}

// A session outlives its watchdog, whether killed or stopped. Nobody starts a second session beside it. When it has
// ended, the next watchdog records the end and the output, and starts the next session for unread messages.
func TestASessionOutlivesItsWatchdog(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(f *fixture) (stop func()){
		"killed": func(f *fixture) func() {
			cmd := f.startWatchdog()
			return func() {
				if err := cmd.Process.Kill(); err != nil {
					f.T.Fatal(err)
				}
				cmd.Wait()
			}
		},
		"stopped": func(f *fixture) func() {
			cmd := f.startWatchdog()
			return func() {
				if err := cmd.Process.Signal(unix.SIGTERM); err != nil {
					f.T.Fatal(err)
				}
				if err := cmd.Wait(); err != nil {
					f.T.Fatal(err)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, nil)
			f.addActor("builder")
			f.addActor("zebra")
			stop := start(f)
			f.task("builder")
			a := f.next()
			f.until(fmt.Sprint(a.pid), `SELECT pid FROM agent_runs WHERE agent = 'builder'`)
			stop()
			a.do("print", "still here")
			a.do("read")
			f.watch()
			id := f.task("builder")
			f.task("zebra")
			want.Equal(t, "who is started beside it", f.next().agent, "zebra")
			a.do("print", "still here")
			a.end("exit", 0)
			next := f.next()
			want.Equal(t, "message", next.id, id)
			want.Equal(t, "starts", f.run("builder").Starts, int64(2))
			want.Equal(t, "starts by its own notes", f.starts("builder"), 2)
			want.Equal(t, "ends that were not seen",
				fmt.Sprintf("%q",
					f.Rows(`SELECT json_extract(attributes, '$.outcome'), json_extract(attributes, '$.output')
				FROM command_trace WHERE name = 'start builder' AND status = 'ERROR'`)),
				`["unknown: the process that monitored the session died I am builder\nstill here\nstill here\n"]`)
		})
	}
}

// In a process that goes on without its watchdog, a session goes on too, and its end is recorded.
func TestASessionOutlivesTheWatchInItsProcess(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.addActor("builder")
	stop := f.watch()
	f.task("builder")
	a := f.next()
	stop()
	want.Equal(t, "read", a.do("read"), "1")
	f.watch()
	f.task("builder")
	a.end("exit", 0)
	want.Equal(t, "unread", f.next().unread, 1)
	want.Equal(t, "starts by its own notes", f.starts("builder"), 2)
	f.until("1", `SELECT count(*) FROM command_trace WHERE name = 'start builder'
		AND json_extract(attributes, '$.outcome') = 'exit status 0'`)
}

// A session whose process has died is also ended when its agent stops.
func TestShutdownEndsASessionWhoseWatchdogDied(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.addActor("builder")
	cmd := f.startWatchdog()
	f.task("builder")
	a := f.next()
	f.until(fmt.Sprint(a.pid), `SELECT pid FROM agent_runs WHERE agent = 'builder'`)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	f.watch()
	f.stop("builder")
	a.ended()
	f.untilRun("builder", sessions.Ended)
	f.until("stopped", presenceOf, "builder")
}

// Background processes of a session do not prevent the start of the next even if the session's watchdog was killed
// while it ran.
func TestWhatASessionOfAKilledWatchdogLeavesRunning(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.addActor("builder")
	cmd := f.startWatchdog()
	f.task("builder")
	a := f.next()
	left := a.do("fork")
	t.Cleanup(func() { killPID(t, left) })
	a.do("read")
	f.until(fmt.Sprint(a.pid), `SELECT pid FROM agent_runs WHERE agent = 'builder'`)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	f.watch()
	f.task("builder")
	a.end("exit", 0)
	f.next().do("read")
	want.Equal(t, "starts by its own notes", f.starts("builder"), 2)
}

// The output of a session whose watchdog was killed does not fill the disk either, because the next watchdog bounds
// it.
func TestTheLogOfAnotherSession(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.addActor("builder")
	cmd := f.startWatchdog()
	f.task("builder")
	a := f.next()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	a.do("flood")
	f.watch()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for size := int64(program.MaxLog + 1); size > program.MaxLog; <-tick.C {
		info, err := os.Stat(sessions.Output(f.Ledger, "builder"))
		if err != nil {
			t.Fatal(err)
		}
		size = info.Size()
	}
	want.Equal(t, "read", a.do("read"), "1")
	a.end("exit", 0)
}

// Two watchdogs are repeatedly killed and restarted at any moment, while messages arrive and sessions leave
// background processes. No session runs beside another, and all messages are read.
func TestWatchdogsAreKilled(t *testing.T) {
	t.Parallel()
	kills := helper.Times(100)
	if n, err := strconv.Atoi(os.Getenv("WATCHDOG_KILLS")); err == nil {
		kills = n
	}
	f := newFixture(t, nil)
	agents := []string{"builder", "caster"}
	for _, agent := range agents {
		f.addStarted(agent, "")
	}
	t.Cleanup(func() {
		for _, agent := range agents {
			for _, pid := range f.left(agent) {
				killPID(t, pid)
			}
		}
	})
	dogs := []*exec.Cmd{f.startWatchdog(), f.startWatchdog()}
	sent := 0
	for i := range kills {
		for _, agent := range agents {
			f.task(agent)
			sent++
		}
		// Kill it between the message and the end of its session, when the table shows a random step.
		step := []string{
			`SELECT 1`,
			`SELECT count(*) > 0 FROM agent_runs WHERE state = 'running'`,
			`SELECT count(*) > 0 FROM agent_runs WHERE pid > 0`,
			`SELECT count(*) = 0 FROM agent_inbox WHERE recipient <> 'boss' AND read_at = ''`,
			`SELECT count(*) > 0 FROM agent_runs WHERE state = 'ended'`,
		}[rand.IntN(5)]
		for n := 0; f.Rows(step)[0] != "1" && n < 100; n++ {
		}
		dog := dogs[i%len(dogs)]
		if err := dog.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		dog.Wait()
		dogs[i%len(dogs)] = f.startWatchdog()
	}
	f.until("0", `SELECT count(*) FROM agent_inbox WHERE recipient <> 'boss' AND read_at = ''`)
	f.until(fmt.Sprint(sent), `SELECT count(*) FROM agent_message WHERE sender = 'boss' AND read_at <> ''`)
	for _, agent := range agents {
		f.until("0", `SELECT count(*) FROM agent_runs WHERE state = 'running' AND agent = ?`, agent)
		noted, run := f.starts(agent), f.run(agent)
		if int64(noted) > run.Starts || noted == 0 {
			t.Errorf("%s was started %d times by its own notes, and %d times by the table", agent, noted, run.Starts)
		}
		t.Logf("%s: %d starts noted in the table, %d that it noted itself, %s", agent, run.Starts, noted, run.State)
	}
	if strings.Count(fmt.Sprint(f.Rows(`SELECT message_type FROM agent_message WHERE sender = 'system'`)),
		"agent_failed") > 0 {
		t.Error("a session was given up")
	}
}
