//go:build hosts

package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"mailroom/orchestrator/agenthost"
)

// overSSH moves the database of a desk to another machine, which its hosts reach over ssh. It is not created there
// beforehand.
func (k *desk) overSSH() *desk {
	k.t.Helper()
	env, sockets := studio(k.t, newNamespace(k.t))
	k.t.Cleanup(func() { endHolders(k.t, sockets+"/mailroom") })
	k.reaches = env
	k.env = append(append(k.env, env...), "MAILROOM_DB=ssh://studio"+k.db)
	k.run("trust")
	return k
}

// path returns the PATH of hosts that reach a database on another machine, or "" for a database here.
func (k *desk) path() string {
	if len(k.reaches) == 0 {
		return ""
	}
	return strings.TrimPrefix(k.reaches[0], "PATH=")
}

// TestHostsConverseOverSSH checks that Claude Code and Codex, connected with a database on another machine by connect
// alone, can send each other ten messages each. Half of the messages wake the other host, and half arrive while it
// works. Each message is shown once and in order.
func TestHostsConverseOverSSH(t *testing.T) {
	t.Parallel()
	converse(claudeDesk(t).overSSH())
}

// TestHostsConverseOverTLS repeats the conversation over TLS, with each host joined as its own agent.
func TestHostsConverseOverTLS(t *testing.T) {
	t.Parallel()
	converse(claudeDesk(t).overTLS("of-claude", "of-codex"))
}

// overTLS moves the database of a desk behind a daemon, which projects of the agents have joined.
func (k *desk) overTLS(agents ...string) *desk {
	k.t.Helper()
	address := "127.0.0.1"
	if k.network = newNamespace(k.t); k.network != nil {
		address = k.network.address
	}
	_, port, _ := strings.Cut(strings.TrimPrefix(k.serveAt("0.0.0.0:0", "--socket", "off").address, "https://[::]"), ":")
	for _, agent := range agents {
		invited, err := k.network.within(k.command("invite", "--host", address, agent)).Output()
		var invitation struct{ Link string }
		if err == nil {
			err = json.Unmarshal(invited, &invitation)
		}
		if err != nil {
			k.t.Fatal(err)
		}
		join := k.command("join", invitation.Link)
		join.Dir = filepath.Dir(k.write("joined/"+agent+"/README.md", "Shop"))
		join.Env = append(join.Env, "MAILROOM_DB=")
		if said, err := join.CombinedOutput(); err != nil {
			k.t.Fatalf("%v: %s", err, said)
		}
	}
	k.env = append(k.env, "MAILROOM_DB=https://"+address+":"+port)
	return k
}

// converse makes the two hosts send each other ten messages each.
func converse(first *desk) {
	first.t.Helper()
	c := meetsAt(first, [2]string{"claude", "codex"})
	for n := range 10 {
		c.says(n%2, c.heard(n%2), n).says("I have told it.")
	}
	c.heard(0).says("Good.")
	for n := 10; n < 20; n++ {
		works, tells := n%2, 1-n%2
		c.await(`SELECT count(*) FROM host_sessions WHERE state = 'idle'`, "2")
		g := c.newGate()
		c.talkers[works].types("Work.")
		of := seats[c.pair[works]]
		c.talkers[works].asks().calls(of.shell, of.at(g.pass()))
		g.reached()
		c.talkers[tells].types("Tell it.")
		c.says(tells, c.talkers[tells].asks(), n).says("I have told it.")
		g.open()
		c.heard(works).says("Done.")
	}
	c.await(`SELECT count(*) FROM agent_message WHERE recipient LIKE 'of-%' AND read_at <> ''`, "20")
}

// TestHostsWokenOverSSH checks that messages on another machine wake the hosts whose way of waking differs from that
// of Claude Code and Codex.
func TestHostsWokenOverSSH(t *testing.T) {
	t.Parallel()
	for _, pair := range [][2]string{{"copilot", "qwen"}, {"opencode", "pi"}} {
		t.Run(pair[0]+" and "+pair[1], func(t *testing.T) {
			t.Parallel()
			c := meetsAt(claudeDesk(t).overSSH(), pair)
			for n := range 4 {
				c.says(n%2, c.heard(n%2), n).says("I have told it.")
			}
			c.heard(0).says("Good.")
			c.await(`SELECT count(*) FROM agent_message WHERE recipient LIKE 'of-%' AND read_at <> ''`, "4")
		})
	}
}

// TestHostsTogetherOverSSH checks that each host is shown messages from another machine, and that its model can send
// one from here.
func TestHostsTogetherOverSSH(t *testing.T) {
	t.Parallel()
	isTogether(claudeDesk(t).overSSH(), agenthost.Connectable())
}
