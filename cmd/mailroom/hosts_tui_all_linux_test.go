//go:build hosts

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"mailroom/orchestrator/process"
)

// codexTerminalDesk is a desk at which bob sits before Codex, connected by Mailroom. His home is not the project's
// folder.
func codexTerminalDesk(t *testing.T) *desk {
	t.Helper()
	k := codexDesk(t)
	k.project = filepath.Join(k.folder, "shop")
	if err := os.Mkdir(k.project, 0o700); err != nil {
		t.Fatal(err)
	}
	k.env = append(k.env, "PATH="+filepath.Dir(k.program)+":"+os.Getenv("PATH"))
	k.write(".codex/config.toml", k.codexModel()+"\n")
	k.connects("--as", "bob")
	t.Cleanup(k.endsAll)
	return k
}

// household are the processes that have the desk's folder as their home: what the host has started.
func (k *desk) household() (list []process.ID) {
	k.t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		k.t.Fatal(err)
	}
	for _, file := range files {
		var pid int
		fmt.Sscanf(file, "/proc/%d/environ", &pid)
		id := process.Of(pid)
		variables, _ := os.ReadFile(file) // it may have ended
		if slices.Contains(strings.Split(string(variables), "\x00"), "HOME="+k.folder) {
			list = append(list, id)
		}
	}
	return list
}

// endsAll ends all processes of the desk. Codex's daemon, and what waits for it, would outlive the test.
func (k *desk) endsAll() {
	for list := k.household(); len(list) > 0; list = k.household() {
		for _, id := range list {
			unix.Kill(id.PID, unix.SIGKILL)
		}
	}
}

// codexDaemon starts the daemon in which Codex runs the sessions of terminals. A terminal starts it by itself if there
// is none, but while it does, and that takes long, keys get lost. The daemon runs from a copy of Codex, of 400 MB.
func (k *desk) codexDaemon() {
	k.t.Helper()
	k.t.Cleanup(func() { os.RemoveAll(filepath.Join(k.folder, ".codex", "packages")) })
	k.start(nil, "app-server", "daemon", "start").ends()
}

// codexTerminal starts Codex in a terminal as a person does, with tools that need no sandbox.
func (k *desk) codexTerminal(args ...string) *console {
	k.t.Helper()
	return k.opens(append([]string{"--sandbox", "danger-full-access", "--ask-for-approval", "never"}, args...)...)
}

// codexIsReady is what Codex shows where its user types.
const codexIsReady = "Ask Codex to do anything"

// trusts answers what Codex asks when it is started in a folder, with hooks, that it does not know.
func (c *console) trusts() {
	c.t.Helper()
	c.answers("› 1. Trust and continue", "Enter", "Hooks need review")
	c.answers("› 1. Review hooks", "2", "› 2. Trust all and continue")
	c.answers("› 2. Trust all and continue", "Enter", codexIsReady)
}

// answers presses a key where the screen has a text, until it has the next one. As a person would, it does so again
// where nothing happens, and starts Codex again when it has given up: Codex throws away what is typed while it changes
// the screen.
func (c *console) answers(asked, key, next string) {
	c.t.Helper()
	var pressed time.Time
	c.until("there is "+next, func(screen string) bool {
		switch {
		case strings.Contains(screen, "timed out discarding buffered terminal input") && !c.running.Here():
			c.shuts()
			c.begins()
		case strings.Contains(screen, asked) && time.Since(pressed) > 5*time.Second:
			c.key(key)
			pressed = time.Now()
		}
		return strings.Contains(screen, next)
	})
}

// untilCodexRests waits until so many turns were completed, and a process waits for messages.
func (k *desk) untilCodexRests(turns int) {
	k.t.Helper()
	k.untilCompleted(turns)
	k.until("a process waits for messages", func() bool { return k.sessionOfBob()["wakes"] == true })
}

// untilCompleted waits until Codex has written down that so many turns were completed, which is after their hooks.
func (k *desk) untilCompleted(turns int) {
	k.t.Helper()
	k.until(fmt.Sprint(turns, " turns are completed"), func() bool {
		files, err := filepath.Glob(filepath.Join(k.folder, ".codex", "sessions", "*", "*", "*", "*.jsonl"))
		if err != nil {
			k.t.Fatal(err)
		}
		completed := 0
		for _, file := range files {
			text, _ := os.ReadFile(file)
			completed += bytes.Count(text, []byte(`"type":"task_complete"`))
		}
		return completed == turns
	})
}

// sessionOfBob is what status says of bob's only session; nil if there is none.
func (k *desk) sessionOfBob() map[string]any {
	k.t.Helper()
	for _, of := range k.run("status")["recipients"].([]any) {
		of := of.(map[string]any)
		if sessions, _ := of["host_sessions"].([]any); of["recipient"] == "bob" && len(sessions) == 1 {
			return sessions[0].(map[string]any)
		}
	}
	return nil
}

// sendTold has alice write to bob, and holds what she is told of him to what he does.
func (k *desk) sendTold(presence string) (id string) {
	k.t.Helper()
	answer := k.run("send", "--sender", "alice", "--recipient", "bob", "--message-type", "note", "--payload",
		`"Look at the build."`)
	if told, _ := answer["recipient_presence"].(map[string]any); told["bob"] != presence {
		k.t.Errorf("the sender is told that bob is %v; want %s", told["bob"], presence)
	}
	return answer["message_id"].(string)
}

// userSays holds what stands in a request as words of the user to these. What Codex itself tells there is in tags.
func (r *request) userSays(want ...string) {
	r.t.Helper()
	var said []string
	items, _ := r.body["input"].([]any)
	for _, item := range items {
		item, _ := item.(map[string]any)
		parts, _ := item["content"].([]any)
		for _, part := range parts {
			text, _ := part.(map[string]any)["text"].(string)
			if item["role"] == "user" && !strings.HasPrefix(text, "<environment_context>") &&
				!strings.HasPrefix(text, "<turn_aborted>") {
				said = append(said, text)
			}
		}
	}
	if !slices.Equal(said, want) {
		r.t.Errorf("the user has said %q; want %q", said, want)
	}
}

// codexNudge is the prompt by which Mailroom wakes a session for one message.
const codexNudge = "mailroom: 1 new message from other agents."

// TestCodexTerminal: in a terminal, with its sessions in a daemon, Codex is woken by each message when it is idle, and
// shown each message once. Its user is only said to have said that there is one.
func TestCodexTerminal(t *testing.T) {
	t.Parallel()
	k := codexTerminalDesk(t)
	k.codexDaemon()
	c := k.codexTerminal()
	c.trusts()
	c.types("Hello.")
	r := c.asks()
	r.shows()
	r.says("Hello.")
	said, ids := []string{"Hello."}, []string(nil)
	for turn := range 2 {
		k.untilCodexRests(turn + 1)
		said, ids = append(said, codexNudge), append(ids, k.sendTold("idle"))
		r = c.asks()
		r.shows(ids...)
		r.userSays(said...)
		r.says("Done.")
	}
	k.untilCodexRests(3)
	k.stand("read", "read")

	c.nudgesInVain()
	c.types("Do it.")
	said = append(said, "Do it.")
	r = c.asks()
	r.shows(ids...)
	r.userSays(said...)
	g := k.newGate()
	r.calls("exec_command", comesTo(g))
	g.reached()
	ids = append(ids, k.sendTold("working"))
	g.open()
	r = c.asks()
	r.shows(ids...)
	r.userSays(said...)
	r.says("Done.")
	k.untilCodexRests(5)
	k.stand("read", "read", "read")

	c.isClosed()
	ids = append(ids, k.sendTold("idle"))
	r = c.asks() // of the daemon, which nobody sees
	r.shows(ids...)
	r.says("Done.")
	k.untilCodexRests(6)
	k.stand("read", "read", "read", "read")
	k.start(nil, "app-server", "daemon", "stop").ends()
	k.until("nothing waits for messages any more",
		func() bool { return k.sessionOfBob() == nil || k.sessionOfBob()["wakes"] != true })
}

// nudgesInVain puts into Codex's queue what wakes its session, without any message. The user sees why no turn begins.
func (c *console) nudgesInVain() {
	c.t.Helper()
	session := c.rows(`SELECT session FROM host_sessions`)[0]
	c.start(nil, "queue", "--thread="+session, "--message="+codexNudge).ends()
	c.screenHas("mailroom: the messages have been read in the meantime.")
}

// isClosed has the person end Codex, or Qwen Code.
func (c *console) isClosed() {
	c.t.Helper()
	c.types("/quit")
	c.ends()
}

// TestCodexTerminalInterrupted: what a hook has shown when its user presses Escape stays in the conversation if its
// model was asked already, and is shown again if Codex has ended the hook. Who is interrupted is woken all the same.
func TestCodexTerminalInterrupted(t *testing.T) {
	t.Parallel()
	for _, asked := range []bool{false, true} {
		t.Run(fmt.Sprint("asked=", asked), func(t *testing.T) {
			t.Parallel()
			k := codexTerminalDesk(t)
			work, answered := k.newGate(), k.newGate()
			if !asked {
				k.hooked = fmt.Sprintf("hook; if [ $EVENT = PostToolUse ]; then %s; fi", answered.pass())
				k.write("shop/.codex/hooks.json", map[string]any{"hooks": k.hookSettings()})
			}
			c := k.codexTerminal("--no-daemon")
			c.trusts()
			c.types("Do it.")
			c.asks().calls("exec_command", comesTo(work))
			work.reached()
			id := k.send("Look at the build.")
			work.open()
			if asked {
				c.asks().shows(id)
			} else {
				answered.reached()
			}
			k.stand("shown")
			c.key("Escape")
			c.screenHas("Conversation interrupted")
			answered.open()
			c.types("What now?")
			r := c.asks()
			if !asked {
				r.shows()
				r.says("Nothing.")
				r = c.asks() // since the end of the turn shows it again
			}
			r.shows(id)
			r.says("I see.")
			k.await(`SELECT state FROM host_sessions`, "idle")
			k.stand("read")
		})
	}
}

// TestCodexTerminalInterruptedIsNotWoken: what comes after its user has pressed Escape waits for the next prompt, since
// Codex holds its queue back until then. What Mailroom has put there begins no turn afterwards.
func TestCodexTerminalInterruptedIsNotWoken(t *testing.T) {
	t.Parallel()
	k := codexTerminalDesk(t)
	c := k.codexTerminal("--no-daemon")
	c.trusts()
	c.types("Do it.")
	c.asks()
	c.key("Escape")
	c.screenHas("Conversation interrupted")
	id := k.sendTold("working") // since no hook tells of an interruption
	c.until("the session is nudged",
		func(string) bool { return len(k.rows(`SELECT 1 FROM host_sessions WHERE nudged_at <> ''`)) == 1 })
	c.types("Go on.")
	r := c.asks()
	r.shows(id)
	r.userSays("Do it.", "Go on.")
	r.says("Done.")
	c.screenHas("mailroom: the messages have been read in the meantime.")
	k.stand("read")
	c.types("And now?")
	r = c.asks()
	r.shows(id)
	r.userSays("Do it.", "Go on.", "And now?")
	r.says("Nothing.")
}

// TestCodexTerminalTrustsOnce: after connect has changed nothing Codex asks nothing, and runs the hooks; disconnected
// it runs none.
func TestCodexTerminalTrustsOnce(t *testing.T) {
	t.Parallel()
	k := codexTerminalDesk(t)
	c := k.codexTerminal("--no-daemon")
	c.trusts()
	c.isClosed()

	k.connects("--as", "bob")
	first := k.send("Look at the build.")
	c = k.codexTerminal("--no-daemon")
	c.screenHas(codexIsReady)
	c.types("Hello.")
	r := c.asks()
	r.shows(first)
	r.says("Hello.")
	k.untilCompleted(1)
	k.stand("read")
	c.isClosed()

	k.connects("--remove")
	k.send("And the docs.")
	c = k.codexTerminal("--no-daemon")
	c.screenHas(codexIsReady)
	c.types("Hello again.")
	r = c.asks()
	r.shows()
	r.says("Hello.")
	k.untilCompleted(2)
	c.isClosed()
	k.stand("read", "unread")
}
