//go:build hosts

package main

import (
	"net/http"
	"testing"

	"mailroom/orchestrator/orchestratortest/want"
)

// TestOpenCodeAborted: when the user ends a turn in which a message came, the message stays in the session, and is read
// once the model has answered after it.
func TestOpenCodeAborted(t *testing.T) {
	t.Parallel()
	k := openCodeDesk(t)
	o := k.idleOpenCode()
	id := k.send("Look at the build.")
	o.asks().shows(id)
	o.asked(http.MethodPost, "/session/"+o.id+"/abort", map[string]any{})
	k.stand("shown")
	o.prompts("Go on.")
	o.reads(id)
}

// TestOpenCodeSubagent: a message comes into the session of the user, and not into that of a subagent.
func TestOpenCodeSubagent(t *testing.T) {
	t.Parallel()
	k := openCodeDesk(t)
	o := k.idleOpenCode()
	child := o.begins(map[string]any{"parentID": o.id})
	o.promptsIn(child, "Find it.")
	inner := o.asks()
	o.reads(k.mail())
	inner.shows()
	inner.says("Found.")
}

// TestOpenCodesInOneFolder: in a folder that is connected for OpenCode as carol and for Kilo, which reads OpenCode's
// files, too, as bob, each gets its own agent's mail and tools.
func TestOpenCodesInOneFolder(t *testing.T) {
	t.Parallel()
	k := openCodesDesk(t, "kilo")
	other := *k
	other.host, other.program = "opencode", hostProgram(t, openCodes["opencode"].program)
	other.readies()
	k.run("agent", "add", "carol")
	other.connects("--as", "carol")
	k.connects("--as", "bob")
	for _, host := range []*desk{k, &other} {
		o := host.openCode()
		o.writesToAlice()
		if host == k {
			k.run("send", "--as", "alice", "carol", "For carol.")
			o.reads(k.mail())
			o.rests()
			want.Rows(t, k.rows(`SELECT count(*) FROM agent_message WHERE recipient = 'carol' AND read_at = ''`), "1")
		}
		o.kill()
	}
	want.Rows(t, k.rows(`SELECT sender FROM agent_message WHERE recipient = 'alice' ORDER BY seq`), "bob", "carol")
}
