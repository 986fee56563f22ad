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

// codexTerminalDesk returns a desk with Codex in a terminal, connected by Mailroom. The home is not the project's
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

// household returns the processes that have the desk's folder as their home, which are those started by the host.
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

// endsAll ends all processes of the desk. Codex's daemon, and processes that wait for it, would outlive the test.
func (k *desk) endsAll() {
	for list := k.household(); len(list) > 0; list = k.household() {
		for _, id := range list {
			unix.Kill(id.PID, unix.SIGKILL)
		}
	}
}

// codexDaemon starts the daemon in which Codex runs the sessions of terminals. A terminal starts the daemon by itself
// if there is none, but that takes long, and keys get lost meanwhile. The daemon runs from a copy of Codex, of 400
// MB.
func (k *desk) codexDaemon() {
	k.t.Helper()
	k.t.Cleanup(func() { os.RemoveAll(filepath.Join(k.folder, ".codex", "packages")) })
	k.start(nil, "app-server", "daemon", "start").ends()
}

// codexTerminal starts Codex in a terminal as a user does, with tools that need no sandbox.
func (k *desk) codexTerminal(args ...string) *console {
	k.t.Helper()
	return k.opens(append([]string{"--sandbox", "danger-full-access", "--ask-for-approval", "never"}, args...)...)
}

// codexIsReady is the text on Codex's screen when its user can type.
const codexIsReady = "Ask Codex to do anything"

// trusts answers the questions of Codex when it is started in an unknown folder with hooks.
func (c *console) trusts() {
	c.t.Helper()
	c.answers("› 1. Trust and continue", "Enter", "Hooks need review")
	c.answers("› 1. Review hooks", "2", "› 2. Trust all and continue")
	c.answers("› 2. Trust all and continue", "Enter", codexIsReady)
}

// answers presses a key when the screen has a text, until the screen has the next one. Like a person, it repeats that
// if nothing happens, and starts Codex again if Codex has given up, because Codex discards keys while it changes the
// screen.
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

// untilCodexRests waits until a number of turns were completed, and a process waits for messages.
func (k *desk) untilCodexRests(turns int) {
	k.t.Helper()
	k.untilCompleted(turns)
	k.until("a process waits for messages", func() bool { return k.sessionOfBob()["wakes"] == true })
}

// untilCompleted waits until Codex has saved that a number of turns were completed, which is after their hooks.
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

// sessionOfBob returns status's data about bob's only session, or nil if there is none.
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

// sendTold sends a message from alice to bob, and checks the presence of bob in the answer.
func (k *desk) sendTold(presence string) (id string) {
	k.t.Helper()
	answer := k.run("send", "--sender", "alice", "--recipient", "bob", "--message-type", "note", "--payload",
		`"Look at the build."`)
	if told, _ := answer["recipient_presence"].(map[string]any); told["bob"] != presence {
		k.t.Errorf("the sender is told that bob is %v; want %s", told["bob"], presence)
	}
	return answer["message_id"].(string)
}

// userSays checks the user's prompts in a request. Codex's own texts there are in tags.
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

// codexNudge is the prompt with which Mailroom wakes a session for one message.
const codexNudge = "mailroom: 1 new message from other agents."

// TestCodexTerminal checks that in a terminal, with its sessions in a daemon, Codex is woken by each message when it
// is idle, and shown each message once. The prompt in the name of its user states only that there is one.
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
	r = c.asks() // of the daemon, which has no screen
	r.shows(ids...)
	r.says("Done.")
	k.untilCodexRests(6)
	k.stand("read", "read", "read", "read")
	k.start(nil, "app-server", "daemon", "stop").ends()
	k.until("nothing waits for messages any more",
		func() bool { return k.sessionOfBob() == nil || k.sessionOfBob()["wakes"] != true })
}

// nudgesInVain puts the prompt that wakes a session into Codex's queue, without a message. The user is shown why no
// turn begins.
func (c *console) nudgesInVain() {
	c.t.Helper()
	session := c.rows(`SELECT session FROM host_sessions`)[0]
	c.start(nil, "queue", "--thread="+session, "--message="+codexNudge).ends()
	c.screenHas("mailroom: the messages have been read in the meantime.")
}

// isClosed ends Codex or Qwen Code as a user does.
func (c *console) isClosed() {
	c.t.Helper()
	c.types("/quit")
	c.ends()
}

// TestCodexTerminalInterrupted checks messages shown by a hook when the user presses Escape. They stay in the
// conversation if the model was asked already, and are shown again if Codex has ended the hook. An interrupted
// session is still woken.
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

// TestCodexTerminalInterruptedIsNotWoken checks that messages that arrive after the user has pressed Escape wait for
// the next prompt, because Codex holds its queue back until then. Mailroom's prompt in the queue then starts no turn.
func TestCodexTerminalInterruptedIsNotWoken(t *testing.T) {
	t.Parallel()
	k := codexTerminalDesk(t)
	c := k.codexTerminal("--no-daemon")
	c.trusts()
	c.types("Do it.")
	c.asks()
	c.key("Escape")
	c.screenHas("Conversation interrupted")
	id := k.sendTold("working") // since no hook reports an interruption
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

// TestCodexTerminalTrustsOnce checks that after a connect that changes nothing, Codex asks nothing and runs the
// hooks, and that after a disconnect it runs none.
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
