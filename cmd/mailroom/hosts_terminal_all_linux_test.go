//go:build hosts

package main

import (
	"cmp"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"mailroom/orchestrator/process"
)

// console is a user's terminal in which a program runs. tmux simulates it.
type console struct {
	*desk
	tmux    string
	socket  string
	running process.ID // the program
	args    []string   // its arguments
}

// terminalProgram returns the path of tmux.
func terminalProgram(t *testing.T) string {
	t.Helper()
	tmux, err := exec.LookPath("tmux")
	if _, must := hostsFolder(); err != nil && must {
		t.Fatalf("it is not installed, `make terminal` does that: %v", err)
	}
	if err != nil {
		t.Skipf("it is not installed, `make terminal` does that: %v", err)
	}
	return tmux
}

// opens starts the host with these arguments in a separate terminal, without the test's own environment. The screen
// remains after the host has ended.
func (k *desk) opens(args ...string) *console {
	k.t.Helper()
	c := &console{desk: k, tmux: terminalProgram(k.t), socket: filepath.Join(k.t.TempDir(), "terminal"), args: args}
	c.begins()
	k.t.Cleanup(c.shuts)
	return c
}

// begins starts the program.
func (c *console) begins() {
	c.t.Helper()
	begin := append([]string{"-f", "/dev/null", "new-session", "-d", "-x", "200", "-y", "50", "-P", "-F", "#{pane_pid}",
		c.program}, c.args...)
	pid, err := strconv.Atoi(strings.TrimSpace(c.does(append(begin, ";", "set-option", "-g", "remain-on-exit",
		"on")...)))
	if err != nil {
		c.t.Fatal(err)
	}
	c.running = process.Of(pid)
}

// does runs a command of tmux, and returns its output.
func (c *console) does(words ...string) string {
	c.t.Helper()
	out, err := c.command(words...).CombinedOutput()
	if err != nil {
		c.t.Fatalf("tmux %s: %v\n%s", strings.Join(words, " "), err, out)
	}
	return string(out)
}

func (c *console) command(words ...string) *exec.Cmd {
	cmd := exec.Command(c.tmux, append([]string{"-S", c.socket}, words...)...)
	cmd.Dir = cmp.Or(c.project, c.folder)
	cmd.Env = c.environment()
	return cmd
}

// shuts ends the terminal and the program in it.
func (c *console) shuts() { c.command("kill-server").Run() }

// screen returns the text on the screen.
func (c *console) screen() string {
	c.t.Helper()
	return c.does("capture-pane", "-p")
}

// until waits until the screen reaches a state.
func (c *console) until(what string, reached func(screen string) bool) {
	c.t.Helper()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(patience); ; <-again.C {
		ended := !c.running.Here()
		if reached(c.screen()) { // the expected state may be the end, or a new start
			return
		}
		if time.Now().After(deadline) || ended && !c.running.Here() {
			c.t.Fatalf("it does not come about that %s; the screen is\n%s", what, c.screen())
		}
	}
}

// screenHas waits until a text is on the screen.
func (c *console) screenHas(text string) {
	c.t.Helper()
	c.until("there is "+text, func(screen string) bool { return strings.Contains(screen, text) })
}

// key presses keys, given by tmux's names.
func (c *console) key(names ...string) {
	c.t.Helper()
	c.does(append([]string{"send-keys"}, names...)...)
}

// types enters a line that is not on the screen yet, and ends it with Enter. The line is sent as pasted text, because
// a program may treat keys that arrive faster than a person's as a paste by itself, and Enter as a part of it.
func (c *console) types(line string) {
	c.t.Helper()
	c.does("set-buffer", "-b", "line", line)
	c.does("paste-buffer", "-b", "line", "-p", "-d")
	c.screenHas(line)
	c.key("Enter")
}

// ends waits until the program has ended.
func (c *console) ends() {
	c.t.Helper()
	c.until("the program ends", func(string) bool { return !c.running.Here() })
}

// asks waits for the next request to the model.
func (c *console) asks() *request {
	c.t.Helper()
	select {
	case r := <-c.model.requests:
		return r
	case <-time.After(patience):
		c.t.Fatalf("the model is not asked; the screen is\n%s", c.screen())
	}
	return nil
}
